import argparse

import torch
from torch import nn, optim

torch.manual_seed(12)


class SignSteps:
    """Moves each weight by the same small step."""

    def __init__(self, params, step):
        self.params, self.size = list(params), step

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        with torch.no_grad():
            for p in self.params:
                p -= self.size * p.grad / (p.grad.norm() + 1.0)


OPTIMIZERS = {'sign': SignSteps, 'plain': SignSteps}

parser = argparse.ArgumentParser()
parser.add_argument('--head', default='sign', choices=sorted(OPTIMIZERS))
args = parser.parse_args()
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')

body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()).to(device)
head = nn.Linear(128, 10).to(device)
adam = optim.Adam(body.parameters(), lr=1e-3)
lr_free_adam = OPTIMIZERS[args.head](head.parameters(), 0.05)
criterion = nn.CrossEntropyLoss()
inputs, labels = torch.randn(8, 32, 64), torch.randint(0, 10, (8, 32))
for x, y in zip(inputs, labels):
    x, y = x.to(device), y.to(device)
    adam.zero_grad()
    lr_free_adam.zero_grad()
    loss = criterion(head(body(x)), y)
    loss.backward()
    adam.step()
    lr_free_adam.step()
    print(loss.item())
