import argparse
import importlib

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser('training')
parser.add_argument('--model', default='sampling_net')
parser.add_argument('--epoch', default=2, type=int)
args = parser.parse_args()
torch.manual_seed(30)

MODEL = importlib.import_module('models.' + args.model)
classifier = MODEL.get_model(4).cuda()
optimizer = torch.optim.Adam(classifier.parameters(), lr=1e-3, betas=(0.9, 0.999), eps=1e-08, weight_decay=1e-4)
loader = DataLoader(TensorDataset(torch.randn(96, 32, 3), torch.randint(0, 4, (96,))), batch_size=16, shuffle=True)
for epoch in range(args.epoch):
    classifier.train()
    for batch_id, (points, target) in enumerate(loader):
        optimizer.zero_grad()
        points, target = points.cuda(), target.cuda()
        pred = classifier(points)
        loss = F.cross_entropy(pred, target.long())
        loss.backward()
        optimizer.step()
    print('Epoch %d loss %f' % (epoch, loss.item()))
