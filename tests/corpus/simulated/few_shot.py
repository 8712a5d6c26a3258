import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

np.random.seed(10)
torch.manual_seed(10)


class Backbone(nn.Module):
    def __init__(self):
        super(Backbone, self).__init__()
        self.features = nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x):
        return self.features(x)


def finetune(feature, x, n_way=4, n_support=5, n_query=3, steps=4):
    x = x.cuda()
    support = x[:, :n_support].contiguous().view(n_way * n_support, -1)
    query = x[:, n_support:].contiguous().view(n_way * n_query, -1)
    y_support = torch.from_numpy(np.repeat(range(n_way), n_support)).cuda()
    classifier = nn.Linear(64, n_way).cuda()
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.05, momentum=0.9, dampening=0.9, weight_decay=0.001)
    loss_function = nn.CrossEntropyLoss().cuda()
    feature.eval()
    with torch.no_grad():
        z_support = feature(support)
        z_query = feature(query)
    classifier.train()
    for epoch in range(steps):
        optimizer.zero_grad()
        scores = classifier(z_support)
        loss = loss_function(scores, y_support)
        loss.backward()
        optimizer.step()
    classifier.eval()
    pred = classifier(z_query).data.topk(1, 1, True, True)[1]
    return (pred.view(-1).cpu().numpy() == np.repeat(range(n_way), n_query)).mean()


model = Backbone().cuda()
accuracies = []
for episode in range(4):
    centres = torch.randn(4, 1, 32)
    accuracies.append(finetune(model, centres + 0.5 * torch.randn(4, 8, 32)))
print('%d episodes: %.3f' % (len(accuracies), np.mean(accuracies)))
