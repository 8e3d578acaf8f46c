"""An encoder layer as torch.nn has it, in evaluation mode: attention, its projection, a ReLU MLP, two layer norms."""

import torch
from torch import nn

BATCH = 16
LENGTH = 256
WIDTH = 256
HEADS = 2
HIDDEN = 512


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.layer(x)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]
