import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(27)


def make(width):
    return nn.Sequential(nn.Conv2d(1, width, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(width * 49, 10))


def loss_fn_kd(outputs, labels, teacher_outputs, alpha=0.9, T=4.0):
    kd = nn.KLDivLoss(reduction='batchmean')(F.log_softmax(outputs / T, dim=1), F.softmax(teacher_outputs / T, dim=1))
    return kd * (alpha * T * T) + F.cross_entropy(outputs, labels) * (1. - alpha)


def train_kd(student, teacher, optimizer, loader, cuda):
    student.train()
    teacher.eval()
    for i, (train_batch, labels_batch) in enumerate(loader):
        if cuda:
            train_batch, labels_batch = train_batch.cuda(non_blocking=True), labels_batch.cuda(non_blocking=True)
        output_batch = student(train_batch)
        with torch.no_grad():
            output_teacher_batch = teacher(train_batch)
        if cuda:
            output_teacher_batch = output_teacher_batch.cuda(non_blocking=True)
        loss = loss_fn_kd(output_batch, labels_batch, output_teacher_batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 3 == 0:
            predictions = output_batch.data.cpu().numpy().argmax(1)
            print(loss.item(), (predictions == labels_batch.data.cpu().numpy()).mean())


if __name__ == '__main__':
    cuda = torch.cuda.is_available()
    student, teacher = make(64), make(96)
    if cuda:
        student, teacher = student.cuda(), teacher.cuda()
    loader = DataLoader(TensorDataset(torch.rand(96, 1, 14, 14), torch.randint(0, 10, (96,))), batch_size=16, shuffle=True)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
    for epoch in range(2):
        train_kd(student, teacher, optimizer, loader, cuda)
