import copy

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

np.random.seed(23)
torch.manual_seed(23)
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')

features = np.random.randn(320, 20).astype(np.float32)
target = (features[:, :5].sum(1, keepdims=True) + 0.1 * np.random.randn(320, 1)).astype(np.float32)
train_set = TensorDataset(torch.from_numpy(features[:256]), torch.from_numpy(target[:256]))
valid_set = TensorDataset(torch.from_numpy(features[256:]), torch.from_numpy(target[256:]))
train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
valid_loader = DataLoader(valid_set, batch_size=64, shuffle=False)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, x):
        return self.layers(x)


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.counter, self.best, self.weights = patience, 0, None, None

    def __call__(self, loss, model):
        if self.best is None or loss < self.best:
            self.best, self.counter = loss, 0
            self.weights = copy.deepcopy(model.state_dict())
        else:
            self.counter += 1
        return self.counter >= self.patience


model = Net().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.MSELoss()
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
stopper = EarlyStopping(patience=3)
for epoch in range(4):
    model.train()
    for xb, yb in train_loader:
        xb, yb = xb.to(device), yb.to(device)
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
    model.eval()
    valid_losses = []
    for xb, yb in valid_loader:
        xb, yb = xb.to(device), yb.to(device)
        valid_losses.append(criterion(model(xb), yb).item())
    valid_loss = np.mean(valid_losses)
    scheduler.step(valid_loss)
    print(f'epoch {epoch} valid {valid_loss:.5f}')
    if stopper(valid_loss, model):
        break
model.load_state_dict(stopper.weights)
