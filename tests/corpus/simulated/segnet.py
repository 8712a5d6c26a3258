import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.utils import data

torch.manual_seed(2)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class SegNet(nn.Module):
    def __init__(self, in_chn=3, out_chn=5):
        super(SegNet, self).__init__()
        self.MaxEn = nn.MaxPool2d(2, stride=2, return_indices=True)
        self.ConvEn1 = nn.Conv2d(in_chn, 16, kernel_size=3, padding=1)
        self.BNEn1 = nn.BatchNorm2d(16)
        self.ConvEn2 = nn.Conv2d(16, 64, kernel_size=3, padding=1)
        self.BNEn2 = nn.BatchNorm2d(64)
        self.MaxDe = nn.MaxUnpool2d(2, stride=2)
        self.ConvDe2 = nn.Conv2d(64, 16, kernel_size=3, padding=1)
        self.BNDe2 = nn.BatchNorm2d(16)
        self.ConvDe1 = nn.Conv2d(16, out_chn, kernel_size=3, padding=1)

    def forward(self, x):
        x = F.relu(self.BNEn1(self.ConvEn1(x)))
        x, ind1 = self.MaxEn(x)
        size1 = x.size()
        x = F.relu(self.BNEn2(self.ConvEn2(x)))
        x, ind2 = self.MaxEn(x)
        x = self.MaxDe(x, ind2, output_size=size1)
        x = F.relu(self.BNDe2(self.ConvDe2(x)))
        x = self.MaxDe(x, ind1)
        return self.ConvDe1(x)


class Shapes(data.Dataset):
    def __init__(self, n):
        self.images = torch.rand(n, 3, 24, 24)
        self.masks = (self.images.sum(1) * 1.6).long().clamp(0, 4)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {"image": self.images[i], "mask": self.masks[i]}


def val(model, loader):
    model.eval()
    right = total = 0
    for batch in loader:
        image, mask = batch["image"].to(device), batch["mask"].to(device)
        pred = model(image).argmax(1)
        right += (pred == mask).sum().item()
        total += mask.numel()
    print("pixel accuracy", right / total)


def main():
    train_loader = data.DataLoader(Shapes(48), batch_size=8, shuffle=True)
    val_loader = data.DataLoader(Shapes(16), batch_size=8)
    model = SegNet().to(device)
    loss_fn = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 2.0, 2.0, 1.0])).to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        model.train()
        sum_loss = 0.0
        for batch in train_loader:
            image, mask = batch["image"].to(device), batch["mask"].to(device)
            optimizer.zero_grad()
            loss = loss_fn(model(image), mask)
            loss.backward()
            optimizer.step()
            sum_loss += loss.item()
        print("epoch", epoch, sum_loss / len(train_loader))
        val(model, val_loader)


if __name__ == "__main__":
    main()
