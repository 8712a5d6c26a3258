import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(26)
GRID, CLASSES = 6, 3


class Boxes(Dataset):
    def __init__(self, n):
        self.images = torch.rand(n, 3, 24, 24)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        boxes = torch.tensor([[0, (i % 3), 0.1 + 0.1 * (i % 8), 0.3, 0.2, 0.4], [0, 1, 0.7, 0.8, 0.3, 0.3]])
        return self.images[i], boxes

    @staticmethod
    def collate_fn(batch):
        images, boxes = zip(*batch)
        for i, box in enumerate(boxes):
            box[:, 0] = i
        return torch.stack(images), torch.cat(boxes)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.SiLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.SiLU())
        self.head = nn.Conv2d(64, 5 + CLASSES, 1)

    def forward(self, x):
        return self.head(self.body(x)).permute(0, 2, 3, 1)


def compute_loss(p, targets):
    bce = nn.BCEWithLogitsLoss()
    device = targets.device
    lbox = torch.zeros(1, device=device)
    b, c = targets[:, 0].long(), targets[:, 1].long()
    gxy = targets[:, 2:4] * GRID
    gi, gj = gxy.long().clamp(0, GRID - 1).t()
    ps = p[b, gj, gi]
    pxy = ps[:, :2].sigmoid()
    pwh = (ps[:, 2:4].sigmoid() * 2) ** 2
    inter = torch.min(pwh, targets[:, 4:6]).prod(1)
    iou = inter / (pwh.prod(1) + targets[:, 4:6].prod(1) - inter + 1e-9)
    lbox = lbox + (1.0 - iou).mean() + ((pxy - (gxy - gxy.floor())) ** 2).mean()
    tobj = torch.zeros_like(p[..., 4])
    tobj[b, gj, gi] = iou.detach().clamp(0).type(tobj.dtype)
    t = torch.zeros_like(ps[:, 5:])
    t[range(len(c)), c] = 1.0
    return lbox + bce(p[..., 4], tobj) + bce(ps[:, 5:], t)


def main():
    device = torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')
    loader = DataLoader(Boxes(48), batch_size=8, shuffle=True, collate_fn=Boxes.collate_fn)
    model = Detector().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.937, nesterov=True)
    for epoch in range(2):
        model.train()
        for imgs, targets in loader:
            imgs = imgs.to(device)
            targets = targets.to(device)
            pred = model(imgs)
            loss = compute_loss(pred, targets)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print('%g' % loss.item())


if __name__ == '__main__':
    main()
