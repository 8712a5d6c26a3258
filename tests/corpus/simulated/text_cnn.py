import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument('-lr', type=float, default=0.001)
parser.add_argument('-epochs', type=int, default=1)
parser.add_argument('-batch-size', type=int, default=16)
parser.add_argument('-embed-dim', type=int, default=64)
parser.add_argument('-kernel-num', type=int, default=64)
parser.add_argument('-kernel-sizes', type=str, default='3,4,5')
parser.add_argument('-static', action='store_true', default=False)
args = parser.parse_args()
args.kernel_sizes = [int(k) for k in args.kernel_sizes.split(',')]
args.cuda = torch.cuda.is_available()

random.seed(7)
np.random.seed(7)
torch.manual_seed(7)


class Reviews(Dataset):
    def __init__(self, n):
        self.texts = [np.random.randint(1, 300, random.randint(5, 30)) for _ in range(n)]
        self.labels = np.random.randint(0, 2, n)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        return torch.from_numpy(self.texts[i]), int(self.labels[i])


def collate(batch):
    texts, labels = zip(*batch)
    return pad_sequence(texts, batch_first=True), torch.tensor(labels)


def make_batches(n):
    return DataLoader(Reviews(n * args.batch_size), batch_size=args.batch_size, shuffle=True, collate_fn=collate)


class CNN_Text(nn.Module):
    def __init__(self, args):
        super(CNN_Text, self).__init__()
        self.args = args
        self.embed = nn.Embedding(300, args.embed_dim)
        self.convs = nn.ModuleList([nn.Conv2d(1, args.kernel_num, (K, args.embed_dim)) for K in args.kernel_sizes])
        self.dropout = nn.Dropout(0.1)
        self.fc1 = nn.Linear(len(args.kernel_sizes) * args.kernel_num, 2)

    def forward(self, x):
        x = self.embed(x)
        if self.args.static:
            x = x.detach()
        x = x.unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        x = torch.cat(x, 1)
        x = self.dropout(x)
        return self.fc1(x)


def train(train_iter, dev_iter, model, args):
    if args.cuda:
        model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    steps = 0
    for epoch in range(1, args.epochs + 1):
        model.train()
        for feature, target in train_iter:
            if args.cuda:
                feature, target = feature.cuda(), target.cuda()
            optimizer.zero_grad()
            logit = model(feature)
            loss = F.cross_entropy(logit, target)
            loss.backward()
            optimizer.step()
            steps += 1
            if steps % 4 == 0:
                corrects = (torch.max(logit, 1)[1].view(target.size()).data == target.data).sum()
                print('Batch[{}] - loss: {:.6f} acc: {}'.format(steps, loss.item(), corrects))
                evaluate(dev_iter, model, args)
                model.train()


def evaluate(data_iter, model, args):
    model.eval()
    corrects, avg_loss = 0, 0
    for feature, target in data_iter:
        if args.cuda:
            feature, target = feature.cuda(), target.cuda()
        logit = model(feature)
        loss = F.cross_entropy(logit, target, reduction='sum')
        avg_loss += loss.item()
        corrects += (torch.max(logit, 1)[1].view(target.size()).data == target.data).sum()
    print('Evaluation - loss: {:.6f} ({})'.format(avg_loss, corrects))


train(make_batches(10), make_batches(2), CNN_Text(args), args)
