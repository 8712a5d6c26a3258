import argparse
import os

import torch
import torch.nn as nn
import torch.backends.cudnn as cudnn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument('--gpu', default='0')
parser.add_argument('--lr', default=0.01, type=float)
args = parser.parse_args()
os.environ['CUDA_VISIBLE_DEVICES'] = args.gpu
torch.manual_seed(18)


class AverageMeter(object):
    def __init__(self):
        self.sum = self.count = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


class Plain(nn.Module):
    def __init__(self):
        super(Plain, self).__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.classifier = nn.Linear(64 * 16, 10)

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.view(x.size(0), -1))


def accuracy(output, target):
    return (output.topk(1)[1].squeeze(1) == target).float().mean().item() * 100


def train(loader, model, criterion, optimizer):
    losses, top1 = AverageMeter(), AverageMeter()
    model.train()
    for i, (input, target) in enumerate(loader):
        target = target.cuda(non_blocking=True)
        input_var = torch.autograd.Variable(input).cuda()
        output = model(input_var)
        loss = criterion(output, target)
        losses.update(loss.item(), input.size(0))
        top1.update(accuracy(output.data, target), input.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print('loss {:.4f} top1 {:.2f}'.format(losses.avg, top1.avg))


def validate(loader, model, criterion):
    losses = AverageMeter()
    model.eval()
    for i, (input, target) in enumerate(loader):
        target = target.cuda()
        output = model(input.cuda())
        losses.update(criterion(output, target).item(), input.size(0))
    return losses.avg


if __name__ == '__main__':
    cudnn.benchmark = True
    train_loader = DataLoader(TensorDataset(torch.rand(96, 3, 16, 16), torch.randint(0, 10, (96,))), 16, shuffle=True,
                              num_workers=0, pin_memory=True)
    val_loader = DataLoader(TensorDataset(torch.rand(32, 3, 16, 16), torch.randint(0, 10, (32,))), 16, pin_memory=True)
    model = torch.nn.DataParallel(Plain()).cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)
    for epoch in range(2):
        train(train_loader, model, criterion, optimizer)
        print(validate(val_loader, model, criterion))
