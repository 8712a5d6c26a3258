import math

import torch
import torch.nn as nn
from torch.autograd import Variable

torch.manual_seed(16)
ONEOVERSQRT2PI = 1.0 / math.sqrt(2 * math.pi)


class MDN(nn.Module):
    def __init__(self, in_features, out_features, num_gaussians):
        super(MDN, self).__init__()
        self.out_features, self.num_gaussians = out_features, num_gaussians
        self.hidden = nn.Sequential(nn.Linear(in_features, 64), nn.Tanh())
        self.pi = nn.Sequential(nn.Linear(64, num_gaussians), nn.Softmax(dim=1))
        self.sigma = nn.Linear(64, out_features * num_gaussians)
        self.mu = nn.Linear(64, out_features * num_gaussians)

    def forward(self, minibatch):
        h = self.hidden(minibatch)
        sigma = torch.exp(self.sigma(h)).view(-1, self.num_gaussians, self.out_features)
        mu = self.mu(h).view(-1, self.num_gaussians, self.out_features)
        return self.pi(h), sigma, mu


def gaussian_probability(sigma, mu, data):
    data = data.unsqueeze(1).expand_as(sigma)
    ret = ONEOVERSQRT2PI * torch.exp(-0.5 * ((data - mu) / sigma) ** 2) / sigma
    return torch.prod(ret, 2)


def mdn_loss(pi, sigma, mu, target):
    prob = pi * gaussian_probability(sigma, mu, target)
    nll = -torch.log(torch.sum(prob, dim=1))
    return torch.mean(nll)


x = torch.rand(512, 1) * 4 - 2
y = torch.cat([torch.sin(x) + 0.1 * torch.randn(512, 1), 0.5 * x], 1)
model = MDN(1, 2, 5).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    minibatch = Variable(x.cuda())
    labels = Variable(y.cuda())
    model.zero_grad()
    pi, sigma, mu = model(minibatch)
    loss = mdn_loss(pi, sigma, mu, labels)
    loss.backward()
    optimizer.step()
    if epoch % 5 == 0:
        print(loss.item())
