import math

import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(19)
device = 'cuda' if torch.cuda.is_available() else 'cpu'
base_lr, warmup_steps, total_steps = 0.1, 4, 12


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(48, 128)
        self.norm = nn.LayerNorm(128)
        self.fc2 = nn.Linear(128, 128)
        self.fc3 = nn.Linear(128, 5)
        self.act = nn.GELU()

    def forward(self, x):
        x = self.act(self.norm(self.fc1(x)))
        return self.fc3(x + self.act(self.fc2(x)))


def adjust_learning_rate(optimizer, step):
    if step < warmup_steps:
        lr = base_lr * (step + 1) / warmup_steps
    else:
        lr = base_lr * 0.5 * (1 + math.cos(math.pi * (step - warmup_steps) / (total_steps - warmup_steps)))
    for param_group in optimizer.param_groups:
        param_group['lr'] = lr
    return lr


net = Mlp().to(device)
decay = [p for p in net.parameters() if p.ndim > 1]
no_decay = [p for p in net.parameters() if p.ndim <= 1]
optimizer = optim.SGD([{'params': decay, 'weight_decay': 1e-3}, {'params': no_decay, 'weight_decay': 0.0}], lr=base_lr,
                      momentum=0.9)
loader = DataLoader(TensorDataset(torch.randn(192, 48), torch.randint(0, 5, (192,))), batch_size=32, shuffle=True)
step = 0
for epoch in range(2):
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        lr = adjust_learning_rate(optimizer, step)
        optimizer.zero_grad()
        outputs = net(inputs)
        loss = nn.functional.cross_entropy(outputs, targets, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        step += 1
        print('step %d lr %.4f loss %.4f' % (step, lr, loss.item()))
