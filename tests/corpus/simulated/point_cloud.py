import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(11)
np.random.seed(11)


class Clouds(Dataset):
    def __init__(self, size, points):
        self.clouds = np.random.randn(size, points, 3).astype('float32')
        self.labels = np.random.randint(0, 4, size)

    def __getitem__(self, index):
        return self.clouds[index], self.labels[index]

    def __len__(self):
        return len(self.labels)


def index_points(points, idx):
    B = points.shape[0]
    batch = torch.arange(B, dtype=torch.long).to(points.device).view(B, 1, 1)
    return points[batch.expand(-1, idx.shape[1], idx.shape[2]), idx, :]


class EdgeNet(nn.Module):
    def __init__(self, k=8):
        super().__init__()
        self.k = k
        self.mlp1 = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64))
        self.mlp2 = nn.Sequential(nn.Linear(128, 128), nn.ReLU())
        self.head = nn.Linear(128, 4)

    def group(self, x):
        _, idx = torch.cdist(x, x).topk(self.k, dim=-1, largest=False)
        neighbours = index_points(x, idx)
        centre = x.unsqueeze(2).expand_as(neighbours)
        return torch.cat([neighbours - centre, centre], -1)

    def forward(self, xyz):
        x = self.mlp1(self.group(xyz)).max(2)[0]
        x = self.mlp2(self.group(x)).max(2)[0]
        return self.head(x.max(1)[0])


def main():
    loader = DataLoader(Clouds(96, 32), batch_size=16, shuffle=True, num_workers=0, drop_last=True)
    net = EdgeNet().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2)
    for epoch in range(2):
        net.train()
        for points, target in loader:
            points, target = points.cuda(), target.cuda()
            optimizer.zero_grad()
            pred = net(points)
            loss = F.nll_loss(F.log_softmax(pred, dim=-1), target)
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(epoch, loss.item())


if __name__ == '__main__':
    main()
