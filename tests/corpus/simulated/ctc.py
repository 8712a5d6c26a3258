import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(15)


class Speech(Dataset):
    def __init__(self, n):
        self.items = [(torch.randn(int(t), 40), torch.randint(1, 20, (int(t) // 8,))) for t in torch.randint(40, 64, (n,))]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    spectrograms = nn.utils.rnn.pad_sequence([s for s, _ in batch], batch_first=True).transpose(1, 2)
    labels = nn.utils.rnn.pad_sequence([l for _, l in batch], batch_first=True)
    input_lengths = [len(s) // 2 for s, _ in batch]
    label_lengths = [len(l) for _, l in batch]
    return spectrograms, labels, input_lengths, label_lengths


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(40, 128, 5, stride=2, padding=2)
        self.norm = nn.BatchNorm1d(128)
        self.fc1 = nn.Linear(128, 128)
        self.fc2 = nn.Linear(128, 20)

    def forward(self, x):
        x = F.gelu(self.norm(self.conv(x))).transpose(1, 2)
        return self.fc2(F.gelu(self.fc1(x)))


def train(model, device, loader, criterion, optimizer, scheduler, epoch):
    model.train()
    for batch_idx, _data in enumerate(loader):
        spectrograms, labels, input_lengths, label_lengths = _data
        spectrograms, labels = spectrograms.to(device), labels.to(device)
        optimizer.zero_grad()
        output = model(spectrograms)
        output = F.log_softmax(output, dim=2)
        output = output.transpose(0, 1)
        loss = criterion(output, labels, input_lengths, label_lengths)
        loss.backward()
        optimizer.step()
        scheduler.step()
    print('epoch', epoch, loss.item())


def main():
    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    kwargs = {'num_workers': 0, 'pin_memory': True} if use_cuda else {}
    loader = DataLoader(Speech(48), batch_size=8, shuffle=True, collate_fn=collate, **kwargs)
    model = Acoustic().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4)
    criterion = nn.CTCLoss(blank=0).to(device)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-4, steps_per_epoch=len(loader), epochs=2)
    for epoch in range(2):
        train(model, device, loader, criterion, optimizer, scheduler, epoch)


if __name__ == "__main__":
    main()
