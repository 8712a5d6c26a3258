from __future__ import division
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.nn.parameter import Parameter

np.random.seed(25)
torch.manual_seed(25)


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super(GraphConvolution, self).__init__()
        self.weight = Parameter(torch.FloatTensor(in_features, out_features))
        self.bias = Parameter(torch.FloatTensor(out_features))
        stdv = 1. / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.spmm(adj, support)
        return output + self.bias


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, dropout):
        super(GCN, self).__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.dropout = dropout

    def forward(self, x, adj):
        x = F.relu(self.gc1(x, adj))
        x = F.dropout(x, self.dropout, training=self.training)
        x = self.gc2(x, adj)
        return F.log_softmax(x, dim=1)


def load_data(n=120):
    edges = np.random.randint(0, n, (2, 500))
    indices = torch.from_numpy(np.concatenate([edges, np.stack([np.arange(n)] * 2)], 1))
    adj = torch.sparse_coo_tensor(indices, torch.full((indices.shape[1],), 0.2), (n, n)).coalesce()
    return adj, torch.rand(n, 64), torch.randint(0, 7, (n,)), torch.arange(60), torch.arange(60, n)


def accuracy(output, labels):
    return output.max(1)[1].type_as(labels).eq(labels).double().mean()


adj, features, labels, idx_train, idx_val = load_data()
model = GCN(64, 128, 7, 0.5)
optimizer = optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
if torch.cuda.is_available():
    model.cuda()
    features = features.cuda()
    adj = adj.cuda()
    labels = labels.cuda()
    idx_train, idx_val = idx_train.cuda(), idx_val.cuda()


def train(epoch):
    model.train()
    optimizer.zero_grad()
    output = model(features, adj)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    model.eval()
    output = model(features, adj)
    loss_val = F.nll_loss(output[idx_val], labels[idx_val])
    print('Epoch: {:04d} loss {:.4f} val {:.4f} acc {:.4f}'.format(
        epoch + 1, loss_train.item(), loss_val.item(), accuracy(output[idx_val], labels[idx_val]).item()))


for epoch in range(8):
    train(epoch)
