"""torch.nn.RMSNorm in bfloat16."""

import torch
from torch import nn

ROWS = 4096
FEATURES = 1024


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(FEATURES, eps=1e-6, dtype=torch.bfloat16)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, FEATURES, dtype=torch.bfloat16)]
