import torch
import torch.nn as nn
import torch.optim as optim
from torch.autograd import Variable

torch.manual_seed(28)
dtype = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor


class GramMatrix(nn.Module):
    def forward(self, input):
        a, b, c, d = input.size()
        features = input.view(a * b, c * d)
        return torch.mm(features, features.t()).div(a * b * c * d)


cnn = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1)).type(dtype)
for p in cnn.parameters():
    p.requires_grad = False
gram = GramMatrix()
content = Variable(torch.rand(1, 3, 16, 16).type(dtype))
style = Variable(torch.rand(1, 3, 16, 16).type(dtype))
content_target = cnn(content).detach()
style_target = gram(cnn(style)).detach()
input_param = nn.Parameter(content.data.clone())
optimizer = optim.LBFGS([input_param], lr=0.5, max_iter=4)
criterion = nn.MSELoss()
for run in range(2):
    def closure():
        input_param.data.clamp_(0, 1)
        optimizer.zero_grad()
        out = cnn(input_param)
        loss = criterion(out, content_target) + 100 * criterion(gram(out), style_target)
        loss.backward()
        return loss
    print(optimizer.step(closure).item())
