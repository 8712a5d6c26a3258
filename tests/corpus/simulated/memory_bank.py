import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(17)


class Instances(Dataset):
    def __init__(self, n):
        self.images = torch.rand(n, 3, 12, 12)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], index


class Encoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(64 * 9, dim)

    def forward(self, x):
        x = self.fc(self.conv(x).flatten(1))
        return F.normalize(x, dim=1)


class Bank(nn.Module):
    def __init__(self, dim, n, T=0.07, momentum=0.5):
        super().__init__()
        self.T, self.momentum = T, momentum
        self.register_buffer('memory', F.normalize(torch.randn(n, dim), dim=1))

    def forward(self, feature, index):
        logits = torch.mm(feature, self.memory.clone().t()) / self.T
        with torch.no_grad():
            old = torch.index_select(self.memory, 0, index)
            new = F.normalize(old * self.momentum + feature * (1 - self.momentum), dim=1)
            self.memory.index_copy_(0, index, new)
        return logits


def main():
    dataset = Instances(80)
    loader = DataLoader(dataset, batch_size=16, shuffle=True, num_workers=0, pin_memory=True)
    model = Encoder().cuda()
    bank = Bank(64, len(dataset)).cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    for epoch in range(2):
        model.train()
        for idx, (img, index) in enumerate(loader):
            img = img.cuda(non_blocking=True)
            index = index.cuda(non_blocking=True)
            feature = model(img)
            loss = criterion(bank(feature, index), index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print('Epoch [{}][{}] {:.4f}'.format(epoch, idx, loss.item()))


if __name__ == '__main__':
    main()
