import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(20)
accumulation_steps, max_norm = 4, 1.0


class Pairs(Dataset):
    def __init__(self, n):
        self.a = torch.randn(n, 64)
        self.b = self.a.flip(1) + 0.1 * torch.randn(n, 64)

    def __len__(self):
        return len(self.a)

    def __getitem__(self, i):
        return self.a[i], self.b[i]


class Trainer:
    def __init__(self, model, loader, lr):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(self.device)
        self.loader = loader
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / 2))
        self.global_step = 0

    def train_epoch(self):
        self.model.train()
        self.optimizer.zero_grad()
        running = 0.0
        for step, (x, y) in enumerate(self.loader):
            x, y = x.to(self.device), y.to(self.device)
            loss = self.criterion(self.model(x), y) / accumulation_steps
            loss.backward()
            running += loss.item()
            if (step + 1) % accumulation_steps == 0:
                norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm)
                self.optimizer.step()
                self.scheduler.step()
                self.optimizer.zero_grad()
                self.global_step += 1
                print(self.global_step, running, float(norm))
                running = 0.0


if __name__ == "__main__":
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 64))
    trainer = Trainer(net, DataLoader(Pairs(128), batch_size=8, shuffle=True), lr=1e-3)
    for epoch in range(1):
        trainer.train_epoch()
