import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import data_parallel
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument('--ngpu', default=1, type=int)
p.add_argument('--epochs', default=2, type=int)
p.add_argument('--lr', default=0.05, type=float)
opt = p.parse_args()

torch.manual_seed(21)
torch.backends.cudnn.benchmark = True


class Block(nn.Module):
    def __init__(self, ni, no, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(ni, no, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(no)
        self.conv2 = nn.Conv2d(no, no, 3, 1, 1, bias=False)
        self.short = nn.Conv2d(ni, no, 1, stride, bias=False)

    def forward(self, x):
        y = self.conv2(F.relu(self.bn(self.conv1(x)), inplace=True))
        return F.relu(y + self.short(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.b1 = Block(3, 16, 2)
        self.b2 = Block(16, 64, 2)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = self.b2(self.b1(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def main():
    train_loader = DataLoader(TensorDataset(torch.randn(96, 3, 16, 16), torch.randint(0, 10, (96,))), 16, shuffle=True,
                              num_workers=0, pin_memory=True)
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), opt.lr, momentum=0.9, weight_decay=5e-4)
    for epoch in range(opt.epochs):
        model.train()
        for x, y in train_loader:
            inputs = x.cuda()
            targets = y.cuda()
            y = data_parallel(model, inputs, range(opt.ngpu))
            loss = F.cross_entropy(y, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print('epoch', epoch, 'loss', loss.item())


if __name__ == '__main__':
    main()
