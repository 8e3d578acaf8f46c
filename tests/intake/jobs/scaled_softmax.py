"""Softmax of a scaled row: the PyTorch module of scaled_softmax.json."""

import torch
from torch import nn

ROWS = 1024
COLUMNS = 512


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.softmax(x * self.scale, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [0.125]
