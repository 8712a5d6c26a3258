from __future__ import annotations

import re
from textwrap import dedent

import pytest
from kit import check_leaves, check_rewrites, check_silent, run

from codemods.codemod import Promise
from codemods.rules.no_grad_eval import NoGradEval
from tests.training import run_script

HEAD = """\
import torch
from torch import nn
from torch.autograd import Variable

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
loader = [(torch.randn(2, 4), torch.tensor([0, 2])) for _ in range(3)]
"""
N = HEAD.count("\n")


def script(body: str) -> str:
    return HEAD + dedent(body)


TRAIN = """\
for epoch in range(2):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""

# (a) functions, (b) regions, (c) volatile: what is rewritten, (before, after).
REWRITES = {
    "(b) a loss that is overwritten before the loop is left": (
        """\
        for epoch in range(2):
            loss = criterion(model(loader[0][0]), loader[0][1])
            model.eval()
            loss = criterion(model(loader[1][0]), loader[1][1])
        loss.backward()
        """,
        """\
        for epoch in range(2):
            with torch.no_grad():
                loss = criterion(model(loader[0][0]), loader[0][1])
            model.eval()
            loss = criterion(model(loader[1][0]), loader[1][1])
        loss.backward()
        """,
    ),
    "a model that asks whether its state has gradients": (
        """\
        def detached(state):
            return state.detach() if state.requires_grad else state


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                return self.layer(detached(x))


        net = Net()


        def evaluate():
            return net(loader[0][0]).argmax(1).tolist()
        """,
        """\
        def detached(state):
            return state.detach() if state.requires_grad else state


        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                return self.layer(detached(x))


        net = Net()


        @torch.no_grad()
        def evaluate():
            return net(loader[0][0]).argmax(1).tolist()
        """,
    ),
    "a function with a name of evaluation": (
        """\
        def validate():
            return sum(criterion(model(x), y).item() for x, y in loader)
        """,
        """\
        @torch.no_grad()
        def validate():
            return sum(criterion(model(x), y).item() for x, y in loader)
        """,
    ),
    "a function that switches its model to evaluation": (
        """\
        def report(net):
            net.eval()
            for x, y in loader:
                print(net(x).argmax(1))

        report(model)
        """,
        """\
        @torch.no_grad()
        def report(net):
            net.eval()
            for x, y in loader:
                print(net(x).argmax(1))

        report(model)
        """,
    ),
    "a function of parameters that nothing here calls": (
        """\
        def evaluate(net, batches, loss_function, device):
            net.eval()
            total, correct = 0, 0
            for x, y in batches:
                x, y = x.to(device), y.to(device)
                out = net(x)
                total += loss_function(out, y).item()
                correct += out.max(1)[1].eq(y).sum()
            return total / len(batches), correct
        """,
        """\
        @torch.no_grad()
        def evaluate(net, batches, loss_function, device):
            net.eval()
            total, correct = 0, 0
            for x, y in batches:
                x, y = x.to(device), y.to(device)
                out = net(x)
                total += loss_function(out, y).item()
                correct += out.max(1)[1].eq(y).sum()
            return total / len(batches), correct
        """,
    ),
    "a method of a trainer whose model comes from elsewhere": (
        """\
        class Trainer:
            def __init__(self, net):
                self.net = net

            def valid_epoch(self):
                self.net.eval()
                return sum(criterion(self.net(x), y).item() for x, y in loader)
        """,
        """\
        class Trainer:
            def __init__(self, net):
                self.net = net

            @torch.no_grad()
            def valid_epoch(self):
                self.net.eval()
                return sum(criterion(self.net(x), y).item() for x, y in loader)
        """,
    ),
    "a model that another file makes": (
        """\
        from models import build

        net = build()

        def test():
            net.eval()
            for x, y in loader:
                print(net(x).argmax(1))
        """,
        """\
        from models import build

        net = build()

        @torch.no_grad()
        def test():
            net.eval()
            for x, y in loader:
                print(net(x).argmax(1))
        """,
    ),
    "a function that is called while the model evaluates": (
        """\
        def confusion(net):
            return [(net(x).argmax(1), y) for x, y in loader]

        model = model.eval()
        print(confusion(model))
        """,
        """\
        @torch.no_grad()
        def confusion(net):
            return [(net(x).argmax(1), y) for x, y in loader]

        model = model.eval()
        print(confusion(model))
        """,
    ),
    "a function inside a function": (
        """\
        def main():
            def validate():
                return sum(criterion(model(x), y).item() for x, y in loader)

            print(validate())
        """,
        """\
        def main():
            @torch.no_grad()
            def validate():
                return sum(criterion(model(x), y).item() for x, y in loader)

            print(validate())
        """,
    ),
    "a tensor that the caller only shows": (
        """\
        def predict(x):
            model.eval()
            return model(x)

        for x, y in loader:
            scores = predict(x)
            best = scores.max()
            print(f"{best} {scores}")
        """,
        """\
        @torch.no_grad()
        def predict(x):
            model.eval()
            return model(x)

        for x, y in loader:
            scores = predict(x)
            best = scores.max()
            print(f"{best} {scores}")
        """,
    ),
    "other decorators stay outside": (
        """\
        import functools

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x):
                return self.fc(x)

        class Tester:
            @staticmethod
            def test():
                net = Net()
                return net(loader[0][0]).sum().item()

            @property
            def accuracy(self):
                net = Net()
                return net(loader[0][0]).sum().item()

        @functools.lru_cache
        def evaluate():
            net = Net()
            return net(loader[0][0]).sum().item()
        """,
        """\
        import functools

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x):
                return self.fc(x)

        class Tester:
            @staticmethod
            @torch.no_grad()
            def test():
                net = Net()
                return net(loader[0][0]).sum().item()

            @property
            @torch.no_grad()
            def accuracy(self):
                net = Net()
                return net(loader[0][0]).sum().item()

        @functools.lru_cache
        @torch.no_grad()
        def evaluate():
            net = Net()
            return net(loader[0][0]).sum().item()
        """,
    ),
    "only a part of it has no gradients yet": (
        """\
        def test():
            with torch.no_grad():
                first = model(loader[0][0])
            second = model(loader[1][0])
            print((first - second).sum().item())
        """,
        """\
        @torch.no_grad()
        def test():
            with torch.no_grad():
                first = model(loader[0][0])
            second = model(loader[1][0])
            print((first - second).sum().item())
        """,
    ),
    "numbers are kept, not tensors": (
        """\
        class Trainer:
            def validate(self):
                model.eval()
                self.losses = [criterion(model(x), y).item() for x, y in loader]
                self.best = max(self.losses)
        """,
        """\
        class Trainer:
            @torch.no_grad()
            def validate(self):
                model.eval()
                self.losses = [criterion(model(x), y).item() for x, y in loader]
                self.best = max(self.losses)
        """,
    ),
    "inlined, up to model.train()": (
        """\
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            model.eval()
            total = 0
            for x, y in loader:
                # kept where it is
                total += criterion(model(x), y)
            total /= len(loader)
            model.train()
            print(total)
        """,
        """\
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            model.eval()
            total = 0
            with torch.no_grad():
                for x, y in loader:
                    # kept where it is
                    total += criterion(model(x), y)
            total /= len(loader)
            model.train()
            print(total)
        """,
    ),
    "inlined, with the names of the training": (
        TRAIN
        + """\
    model.eval()
    for x, y in loader:
        loss = criterion(model(x), y)
    print(loss)
""",
        TRAIN
        + """\
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            loss = criterion(model(x), y)
    print(loss)
""",
    ),
    "inlined, to the end of the file, apart from definitions": (
        """\
        model.eval()

        def show(image):
            print(image)

        out = [model(x) for x, y in loader]
        show(out)
        import json
        print(json.dumps([model(x).tolist() for x, y in loader]))
        """,
        """\
        model.eval()

        def show(image):
            print(image)

        with torch.no_grad():
            out = [model(x) for x, y in loader]
        show(out)
        import json
        with torch.no_grad():
            print(json.dumps([model(x).tolist() for x, y in loader]))
        """,
    ),
    "inlined, break and continue": (
        """\
        model.train(False)
        for x, y in loader:
            if y.sum() == 7:
                continue
            if model(x).sum() > 1e9:
                break
        """,
        """\
        model.train(False)
        with torch.no_grad():
            for x, y in loader:
                if y.sum() == 7:
                    continue
                if model(x).sum() > 1e9:
                    break
        """,
    ),
    "inlined, text over several lines": (
        '''\
        model.eval()
        for x, y in loader:
            print("""one
        two""", model(x).argmax(1))
        ''',
        '''\
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                print("""one
        two""", model(x).argmax(1))
        ''',
    ),
    "indices carry no graph": (
        """\
        def classify(net, x):
            net.eval()
            _, best = torch.max(net(x), 1)
            values, places = net(x).topk(2)
            return best, places, net(x).topk(1)[1], net(x).data
        """,
        """\
        @torch.no_grad()
        def classify(net, x):
            net.eval()
            _, best = torch.max(net(x), 1)
            values, places = net(x).topk(2)
            return best, places, net(x).topk(1)[1], net(x).data
        """,
    ),
    "not after model.train()": (
        """\
        for x, y in loader:
            model.eval()
            print(model(x).argmax(1))
            model.train()
            criterion(model(x), y).backward()
        """,
        """\
        for x, y in loader:
            model.eval()
            with torch.no_grad():
                print(model(x).argmax(1))
            model.train()
            criterion(model(x), y).backward()
        """,
    ),
    "a scheduler only looks at the loss": (
        """\
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            model.eval()
            val_loss = criterion(model(x), y)
            scheduler.step(val_loss)
            model.train()
        """,
        """\
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                val_loss = criterion(model(x), y)
            scheduler.step(val_loss)
            model.train()
        """,
    ),
    "V1: a decorated generator switches gradients on again for whoever asks": (
        """\
        def stream():
            model.eval()
            for x, y in loader:
                yield model(x).argmax(1)
        """,
        """\
        @torch.no_grad()
        def stream():
            model.eval()
            for x, y in loader:
                yield model(x).argmax(1)
        """,
    ),
    "V8: a checkpointed model": (
        """\
        from torch.utils.checkpoint import checkpoint

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x):
                return checkpoint(self.fc, x, use_reentrant=False)

        def validate(net):
            for x, y in loader:
                print(net(x).argmax(1))

        validate(Net())
        """,
        """\
        from torch.utils.checkpoint import checkpoint

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 3)

            def forward(self, x):
                return checkpoint(self.fc, x, use_reentrant=False)

        @torch.no_grad()
        def validate(net):
            for x, y in loader:
                print(net(x).argmax(1))

        validate(Net())
        """,
    ),
    "a state that a forward starts with": (
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.RNN(4, 3)

            def forward(self, x):
                start = torch.zeros(1, 3).requires_grad_()
                out, _ = self.rnn(x, start.detach())
                return out

        def validate(net):
            for x, y in loader:
                print(net(x).argmax(1))

        validate(Net())
        """,
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.RNN(4, 3)

            def forward(self, x):
                start = torch.zeros(1, 3).requires_grad_()
                out, _ = self.rnn(x, start.detach())
                return out

        @torch.no_grad()
        def validate(net):
            for x, y in loader:
                print(net(x).argmax(1))

        validate(Net())
        """,
    ),
    "a loop over test data beside the training, without model.eval()": (
        """\
        batches = torch.utils.data.DataLoader(loader, batch_size=None)
        test_batches = torch.utils.data.DataLoader(loader, batch_size=None)
        for epoch in range(2):
            for x, y in batches:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            right = 0
            for x, y in test_batches:
                output = model(x)
                right += (output.argmax(1) == y).sum().item()
            print(right)
        """,
        """\
        batches = torch.utils.data.DataLoader(loader, batch_size=None)
        test_batches = torch.utils.data.DataLoader(loader, batch_size=None)
        for epoch in range(2):
            for x, y in batches:
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()
            right = 0
            with torch.no_grad():
                for x, y in test_batches:
                    output = model(x)
                    right += (output.argmax(1) == y).sum().item()
            print(right)
        """,
    ),
    "a loop over data around model.eval()": (
        """\
        for x, y in torch.utils.data.DataLoader(loader, batch_size=None):
            model.eval()
            print(model(x).argmax(1))
        """,
        """\
        for x, y in torch.utils.data.DataLoader(loader, batch_size=None):
            model.eval()
            with torch.no_grad():
                print(model(x).argmax(1))
        """,
    ),
    "volatile variables in a function": (
        """\
        def test():
            model.eval()
            for x, y in loader:
                x, y = Variable(x, volatile=True), Variable(y)
                print(model(x).argmax(1))
        """,
        """\
        @torch.no_grad()
        def test():
            model.eval()
            for x, y in loader:
                x, y = Variable(x), Variable(y)
                print(model(x).argmax(1))
        """,
    ),
    "volatile variables by a function of the script's": (
        """\
        USE_CUDA = torch.cuda.is_available()
        Var = lambda *args, **kwargs: Variable(*args, **kwargs).cuda() if USE_CUDA else Variable(*args, **kwargs)

        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Linear(4, 2)

            def forward(self, x):
                return self.layers(x)

            def act(self, state):
                state = Var(state.unsqueeze(0), volatile=True)
                q_value = self.forward(state)
                action = q_value.max(1)[1].data[0]
                return action

        print(Policy().act(torch.ones(4)))
        """,
        """\
        USE_CUDA = torch.cuda.is_available()
        Var = lambda *args, **kwargs: Variable(*args, **kwargs).cuda() if USE_CUDA else Variable(*args, **kwargs)

        class Policy(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Linear(4, 2)

            def forward(self, x):
                return self.layers(x)

            def act(self, state):
                with torch.no_grad():
                    state = Var(state.unsqueeze(0))
                    q_value = self.forward(state)
                action = q_value.max(1)[1].data[0]
                return action

        print(Policy().act(torch.ones(4)))
        """,
    ),
    "volatile variables in a region": (
        """\
        def act(state):
            state = Variable(state, volatile=True)
            q_value = model(state)
            return q_value.max(1)[1].item()
        """,
        """\
        @torch.no_grad()
        def act(state):
            state = Variable(state)
            q_value = model(state)
            return q_value.max(1)[1].item()
        """,
    ),
    "every few steps, in the training loop": (
        """\
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            out = model(x)
            criterion(out, y).backward()
            optimizer.step()
            if step % 2 == 0:
                out = model(loader[0][0])
                loss = criterion(out, loader[0][1])
                print(loss.item(), (out.argmax(1) == y).sum())
        """,
        """\
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            out = model(x)
            criterion(out, y).backward()
            optimizer.step()
            if step % 2 == 0:
                with torch.no_grad():
                    out = model(loader[0][0])
                    loss = criterion(out, loader[0][1])
                print(loss.item(), (out.argmax(1) == y).sum())
        """,
    ),
    "samples are saved between iterations": (
        TRAIN
        + """\
    fake = model(torch.ones(1, 4))
    print(fake.detach())
""",
        TRAIN
        + """\
    with torch.no_grad():
        fake = model(torch.ones(1, 4))
    print(fake.detach())
""",
    ),
    "an action is an array in the end": (
        """\
        class Agent:
            def choose(self, state):
                return model(torch.from_numpy(state)).detach().cpu().numpy()

            def learn(self, x, y):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()

        agent = Agent()
        for x, y in loader:
            print(agent.choose(x.numpy()))
            agent.learn(x, y)
        """,
        """\
        class Agent:
            @torch.no_grad()
            def choose(self, state):
                return model(torch.from_numpy(state)).detach().cpu().numpy()

            def learn(self, x, y):
                optimizer.zero_grad()
                criterion(model(x), y).backward()
                optimizer.step()

        agent = Agent()
        for x, y in loader:
            print(agent.choose(x.numpy()))
            agent.learn(x, y)
        """,
    ),
    "validation calls what training calls": (
        """\
        def process(x, y):
            return criterion(model(x), y), y

        def vali():
            model.eval()
            total = 0
            for x, y in loader:
                loss, _ = process(x, y)
                total += loss.item()
            model.train()
            return total

        for x, y in loader:
            optimizer.zero_grad()
            process(x, y)[0].backward()
            optimizer.step()
        print(vali())
        """,
        """\
        def process(x, y):
            return criterion(model(x), y), y

        @torch.no_grad()
        def vali():
            model.eval()
            total = 0
            for x, y in loader:
                loss, _ = process(x, y)
                total += loss.item()
            model.train()
            return total

        for x, y in loader:
            optimizer.zero_grad()
            process(x, y)[0].backward()
            optimizer.step()
        print(vali())
        """,
    ),
    "a method of the model computes the loss": (
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                return self.layer(x)

            def loss(self, x, y):
                return criterion(self(x), y)

        net = Net()
        for x, y in loader:
            net.loss(x, y).backward()
            print(net.loss(x, y).item())
        """,
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                return self.layer(x)

            def loss(self, x, y):
                return criterion(self(x), y)

        net = Net()
        for x, y in loader:
            net.loss(x, y).backward()
            with torch.no_grad():
                print(net.loss(x, y).item())
        """,
    ),
    "V2: a parameter says whether it trains": (
        """\
        def iteration(batches, train=True):
            total = 0
            for x, y in batches:
                out = model(x)
                loss = criterion(out, y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                total += loss.item()
            return total

        iteration(loader)
        iteration(loader, train=False)
        """,
        """\
        def iteration(batches, train=True):
            total = 0
            for x, y in batches:
                with torch.set_grad_enabled(train):
                    out = model(x)
                    loss = criterion(out, y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                total += loss.item()
            return total

        iteration(loader)
        iteration(loader, train=False)
        """,
    ),
    "V2: a parameter that is given by position alone says whether it trains": (
        """\
        def iteration(batches, train=True, /):
            total = 0
            for x, y in batches:
                out = model(x)
                loss = criterion(out, y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                total += loss.item()
            return total

        iteration(loader)
        iteration(loader, False)
        """,
        """\
        def iteration(batches, train=True, /):
            total = 0
            for x, y in batches:
                with torch.set_grad_enabled(train):
                    out = model(x)
                    loss = criterion(out, y)
                if train:
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                total += loss.item()
            return total

        iteration(loader)
        iteration(loader, False)
        """,
    ),
    "the discriminator's step does not train the generator": (
        """\
        critic = nn.Linear(3, 1)
        for x, y in loader:
            fake = model(x)
            loss = critic(fake.detach()).mean() - critic(torch.ones(2, 3)).mean()
            loss.backward()
            target = model(x).detach()
            critic(target).mean().backward()
            fake = model(x)
            critic(fake).mean().backward()
        """,
        """\
        critic = nn.Linear(3, 1)
        for x, y in loader:
            with torch.no_grad():
                fake = model(x)
            loss = critic(fake.detach()).mean() - critic(torch.ones(2, 3)).mean()
            loss.backward()
            with torch.no_grad():
                target = model(x).detach()
            critic(target).mean().backward()
            fake = model(x)
            critic(fake).mean().backward()
        """,
    ),
    "what is decorated with it needs no block": (
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                return self.layer(x)

            def predict(self, x):
                return self(x).argmax(1)

        net = Net()
        for x, y in loader:
            criterion(net(x), y).backward()
            net.eval()
            print(net.predict(x))
            net.train()
        """,
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                return self.layer(x)

            @torch.no_grad()
            def predict(self, x):
                return self(x).argmax(1)

        net = Net()
        for x, y in loader:
            criterion(net(x), y).backward()
            net.eval()
            print(net.predict(x))
            net.train()
        """,
    ),
    "it is logged": (
        """\
        import logging

        for step, (x, y) in enumerate(loader):
            criterion(model(x), y).backward()
            logging.info("%d: %s", step, model(x).argmax(1))
        """,
        """\
        import logging

        for step, (x, y) in enumerate(loader):
            criterion(model(x), y).backward()
            with torch.no_grad():
                logging.info("%d: %s", step, model(x).argmax(1))
        """,
    ),
    "functions that assign targets from what a model computed": (
        """\
        class Loss:
            def __call__(self, scores, y):
                kept, chosen = self.assign(scores, y)
                return criterion(scores[kept], chosen)

            def assign(self, scores, y):
                probabilities = scores.softmax(1)
                costs = -torch.log(probabilities + 1e-8)
                best = costs.gather(1, y[:, None])
                return (best < best.mean() + 1).flatten(), y

        compute_loss = Loss()
        for x, y in loader:
            optimizer.zero_grad()
            loss = compute_loss(model(x), y)
            loss.backward()
            optimizer.step()
            print(loss.item())
        """,
        """\
        class Loss:
            def __call__(self, scores, y):
                kept, chosen = self.assign(scores, y)
                return criterion(scores[kept], chosen)

            @torch.no_grad()
            def assign(self, scores, y):
                probabilities = scores.softmax(1)
                costs = -torch.log(probabilities + 1e-8)
                best = costs.gather(1, y[:, None])
                return (best < best.mean() + 1).flatten(), y

        compute_loss = Loss()
        for x, y in loader:
            optimizer.zero_grad()
            loss = compute_loss(model(x), y)
            loss.backward()
            optimizer.step()
            print(loss.item())
        """,
    ),
    "volatile inputs, and the network that trains between": (
        """\
        for x, y in loader:
            later = Variable(torch.flip(x, [0]), volatile=True)
            z = Variable(x)
            values = model(z)
            later_values = model(later)
            target = later_values.max(1)[0] + 1
            loss = (values.sum(1) - target.data).pow(2).mean()
            loss.backward()
            print(loss.item())
        """,
        """\
        for x, y in loader:
            later = Variable(torch.flip(x, [0]))
            z = Variable(x)
            values = model(z)
            with torch.no_grad():
                later_values = model(later)
                target = later_values.max(1)[0] + 1
            loss = (values.sum(1) - target.data).pow(2).mean()
            loss.backward()
            print(loss.item())
        """,
    ),
    "a target network, and a loss with a graph of elsewhere": (
        """\
        for x, y in loader:
            values = model(x)
            later_values = model(torch.flip(x, [0]))
            loss = (values - later_values.data).pow(2).mean()
            loss.backward()
            print(loss.item())
        """,
        """\
        for x, y in loader:
            values = model(x)
            with torch.no_grad():
                later_values = model(torch.flip(x, [0]))
            loss = (values - later_values.data).pow(2).mean()
            loss.backward()
            print(loss.item())
        """,
    ),
    "volatile inputs that another function made": (
        """\
        def project(states):
            later = model(states).data
            return later.max(1)[0] + 1

        for x, y in loader:
            states = Variable(torch.flip(x, [0]), volatile=True)
            target = project(states)
            loss = (model(x).sum(1) - target).pow(2).mean()
            loss.backward()
            print(loss.item())
        """,
        """\
        @torch.no_grad()
        def project(states):
            later = model(states).data
            return later.max(1)[0] + 1

        for x, y in loader:
            states = Variable(torch.flip(x, [0]))
            target = project(states)
            loss = (model(x).sum(1) - target).pow(2).mean()
            loss.backward()
            print(loss.item())
        """,
    ),
    "targets are assigned with new memory changed in place": (
        """\
        def assign(scores, y):
            probabilities = scores.clone().sigmoid_()
            costs = -torch.log(probabilities + 1e-8)
            costs[costs > 9] = 9
            best = costs.gather(1, y[:, None])
            return best < best.mean() + 1

        for x, y in loader:
            scores = model(x)
            kept = assign(scores, y)
            loss = criterion(scores, y) * kept.sum()
            loss.backward()
            print(loss.item())
        """,
        """\
        @torch.no_grad()
        def assign(scores, y):
            probabilities = scores.clone().sigmoid_()
            costs = -torch.log(probabilities + 1e-8)
            costs[costs > 9] = 9
            best = costs.gather(1, y[:, None])
            return best < best.mean() + 1

        for x, y in loader:
            scores = model(x)
            kept = assign(scores, y)
            loss = criterion(scores, y) * kept.sum()
            loss.backward()
            print(loss.item())
        """,
    ),
}


@pytest.mark.parametrize(("before", "after"), REWRITES.values(), ids=list(REWRITES))
def test_evaluates_without_gradients(before: str, after: str) -> None:
    check_rewrites(NoGradEval, script(before), script(after))


# Where it is left, and the reason; None: there is nothing to say.
LEAVES = {
    "no_grad is there": (
        """\
        @torch.no_grad()
        def test():
            print(model(loader[0][0]))

        @torch.inference_mode()
        def predict():
            print(model(loader[0][0]))

        def evaluate():
            torch.set_grad_enabled(False)
            print(model(loader[0][0]))
        """,
        None,
    ),
    "every caller has no gradients": (
        """\
        def test():
            print(model(loader[0][0]))

        with torch.no_grad():
            test()
        """,
        None,
    ),
    "the phase switches gradients": (
        """\
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            for x, y in loader:
                with torch.set_grad_enabled(phase == "train"):
                    loss = criterion(model(x), y)
                if phase == "train":
                    loss.backward()
        """,
        None,
    ),
    "a model without evaluation is trained": (TRAIN, None),
    "a library may train on the losses": (
        """\
        from theirs import Scaler

        scale = Scaler()
        for x, y in torch.utils.data.DataLoader(loader, batch_size=None):
            scale(criterion(model(x), y), optimizer)
        """,
        None,
    ),
    "a library may train on the losses of test data": (
        """\
        from theirs import Scaler

        scale, test_batches = Scaler(), torch.utils.data.DataLoader(loader, batch_size=None)
        for x, y in test_batches:
            optimizer.zero_grad()
            scale(criterion(model(x), y), optimizer)
        """,
        None,
    ),
    "losses of all batches are trained on at once": (
        """\
        losses = []
        for x, y in torch.utils.data.DataLoader(loader, batch_size=None):
            losses.append(criterion(model(x), y))
        sum(losses).backward()
        """,
        None,
    ),
    "losses of the test data are trained on": (
        """\
        test_batches = torch.utils.data.DataLoader(loader, batch_size=None)
        total = 0
        for x, y in test_batches:
            total = total + criterion(model(x), y)
        total.backward()
        """,
        f"a tensor computed in it may be trained on later (line {N + 5})",
    ),
    "a graph goes into code that is not seen": (
        """\
        from engine import backward_of

        for x, y in loader:
            loss = criterion(model(x), y)
            backward_of(loss)
        """,
        None,
    ),
    "a graph goes into a closure that an optimizer calls": (
        """\
        solver = torch.optim.LBFGS(model.parameters())
        for x, y in loader:
            out = model(x)

            def closure():
                loss = criterion(out, y)
                loss.backward()
                return loss

            solver.step(closure)
        """,
        None,
    ),
    "a graph is used by the next pass": (
        """\
        last = None
        for x, y in loader:
            if last is not None:
                criterion(last, y).backward()
            last = model(x)
        """,
        None,
    ),
    "a graph goes into a method that keeps it": (
        """\
        class Memory:
            def remember(self, out):
                self.out = out

        memory = Memory()
        for x, y in loader:
            memory.remember(model(x))
            criterion(memory.out, y).backward()
        """,
        None,
    ),
    "a parameter says whether it trains, and the loss is returned": (
        """\
        def iteration(x, y, train=True):
            loss = criterion(model(x), y)
            if train:
                loss.backward()
            return loss

        for x, y in loader:
            iteration(x, y)
            iteration(x, y, train=False)
        """,
        f"a tensor computed in it may be trained on later (line {N + 5})",
    ),
    "all but a first forward is without gradients already": (
        """\
        kept = []

        def evaluate(warm_up):
            model.eval()
            if warm_up:
                model(loader[0][0])
            found = []
            for x, y in loader:
                with torch.no_grad():
                    found.append(model(x).argmax(1))
            kept.append(found)
            return found

        for epoch in range(2):
            evaluate(True)
            evaluate(False)
        """,
        "its loops run models without gradients already, and what else it computes runs once in a call",
    ),
    "one last forward": (
        TRAIN
        + """\
model.eval()
print(model(loader[0][0]).argmax(1))
""",
        "it computes a graph that nobody asks for, but only once",
    ),
    "what it calls is decorated with it": (
        """\
        @torch.no_grad()
        def predict(x):
            return model(x).argmax(1)

        for x, y in loader:
            model.eval()
            print(predict(x))
        """,
        None,
    ),
    "it is printed once": (
        """\
        print(model(loader[0][0]))
        """,
        "it computes a graph that nobody asks for, but only once",
    ),
    "it is tried out once": (
        """\
        print(model(torch.ones(2, 4)).shape)
        """,
        None,
    ),
    "results are compared": (
        """\
        for x, y in loader:
            torch.testing.assert_close(model(x), model(x))
        """,
        None,
    ),
    "V1: a generator would leave gradients off for whoever asks": (
        """\
        def stream():
            model.eval()
            for x, y in loader:
                yield model(x)
        """,
        f"it keeps a tensor for later (line {N + 4})",
    ),
    "V1: a with block in a generator": (
        """\
        def stream():
            for _ in range(2):
                for x, y in loader:
                    criterion(model(x), y).backward()
                model.eval()
                for x, y in loader:
                    yield model(x).argmax(1)
        """,
        f"it yields to code that may need gradients (line {N + 7})",
    ),
    "V1: a with block around what awaits": (
        """\
        async def train(reads):
            for _ in range(2):
                async for x, y in reads:
                    criterion(model(x), y).backward()
                model.eval()
                print(sum([model(x).sum().item() async for x, y in reads]))
        """,
        f"it awaits code that may need gradients (line {N + 6})",
    ),
    "V1: a coroutine runs after the decorator": (
        """\
        async def predict(x):
            model.eval()
            print(model(x))
        """,
        "it is a coroutine: a decorator would not act while it runs",
    ),
    "V2: a flag says whether it trains": (
        """\
        def evaluate(train=False):
            for x, y in loader:
                loss = criterion(model(x), y)
                if train:
                    loss.backward()
        """,
        f"the function also trains, as its parameter 'train' says (line {N + 5})",
    ),
    "V2: model.train(flag)": (
        """\
        def run(is_training):
            model.train(is_training)
            for x, y in loader:
                loss = criterion(model(x), y)
                if is_training:
                    loss.backward()
        """,
        f"it also trains (line {N + 6}): torch.set_grad_enabled(is_training) would serve both",
    ),
    "V2: training is another file's": (
        """\
        from engine import train_one_epoch

        def main():
            net = nn.Linear(4, 3)
            train_one_epoch(net, loader)
            net.eval()
            print(net(loader[0][0]).argmax(1).tolist(), train_one_epoch(net, loader))
        """,
        None,
    ),
    "V3: attacked images": (
        """\
        def evaluate_attack(images, labels):
            model.eval()
            images.requires_grad_()
            loss = criterion(model(images), labels)
            images = images + torch.autograd.grad(loss, images)[0].sign()
            return (model(images).argmax(1) == labels).sum().item()
        """,
        f"gradients are needed in it (line {N + 3})",
    ),
    "V3: an attack of the script's": (
        """\
        def fgsm(images, labels):
            images = images.clone().requires_grad_()
            criterion(model(images), labels).backward()
            return images + images.grad.sign()

        def test():
            for x, y in loader:
                print(model(fgsm(x, y)).argmax(1))
        """,
        f"gradients are needed in it (line {N + 2})",
    ),
    "V3: an attack of another file's": (
        """\
        from attacks import pgd_attack

        def test():
            for x, y in loader:
                print(model(pgd_attack(model, x, y)).argmax(1))
        """,
        f"gradients are needed in it (line {N + 5})",
    ),
    "V3: saliency by a library": (
        """\
        from captum.attr import IntegratedGradients

        def test():
            for x, y in loader:
                print(model(x).argmax(1), IntegratedGradients(model).attribute(x, target=y))
        """,
        f"gradients are needed in it (line {N + 5})",
    ),
    "V3: forces are gradients": (
        """\
        class Energy(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(3, 1)

            def forward(self, positions):
                positions.requires_grad_()
                return -torch.autograd.grad(self.fc(positions).sum(), positions)[0]

        energy = Energy()

        def validate(positions):
            print(energy(positions))
        """,
        f"gradients are needed in it (line {N + 8})",
    ),
    "V3: gradients decide what is computed": (
        """\
        def test():
            for x, y in loader:
                print(model(x) if torch.is_grad_enabled() else 0)
        """,
        f"gradients are needed in it (line {N + 3})",
    ),
    "V4: the result is trained on": (
        """\
        def generate(net, x):
            return net(x)

        head = nn.Linear(3, 3)
        for x, y in loader:
            loss = criterion(head(generate(model, x)), y)
            loss.backward()
        """,
        f"what it returns may be trained on (line {N + 7})",
    ),
    "V4: the result is handed on": (
        """\
        def predict(x):
            return model(x)

        def scores(x):
            return predict(x) * 2
        """,
        f"what it returns may be trained on (line {N + 5})",
    ),
    "V4: nobody knows what becomes of the result": (
        """\
        def predict(x):
            return model(x)
        """,
        "it returns tensors to code outside this file, which may train on them",
    ),
    "V4: a teacher inside the iteration": (
        """\
        teacher = nn.Linear(4, 3)
        for x, y in loader:
            teacher.eval()
            soft = teacher(x)
            loss = criterion(model(x), y) + (model(x) - soft).pow(2).mean()
            loss.backward()
        """,
        f"a tensor computed in it may be trained on later (line {N + 6})",
    ),
    "V4: a perceptual loss goes through the frozen network": (
        """\
        vgg = nn.Linear(3, 3)
        vgg.eval()
        for x, y in loader:
            loss = vgg(model(x)).mean()
            loss.backward()
        """,
        None,
    ),
    "V4: a network that is made for evaluation": (
        """\
        vgg = nn.Linear(3, 3).eval()
        style = vgg(torch.ones(3))
        for x, y in loader:
            ((vgg(model(x)) - style) ** 2).mean().backward()
        """,
        None,
    ),
    "V4: features for later training": (
        """\
        model.eval()
        features = model(torch.ones(2, 4))
        head = nn.Linear(3, 1)
        for _ in range(3):
            head(features).sum().backward(retain_graph=True)
        """,
        f"a tensor computed in it may be trained on later (line {N + 5})",
    ),
    "V4: the names of the iteration, after the loop": (
        """\
        for epoch in range(2):
            criterion(model(loader[0][0]), loader[0][1]).backward()
            model.eval()
            loss = criterion(model(loader[1][0]), loader[1][1])
        loss.backward()
        """,
        f"a tensor computed in it may be trained on later (line {N + 5})",
    ),
    "V4: what is trained on after a break": (
        """\
        for x, y in loader:
            model.eval()
            if y.sum() > 1:
                output = model(x)
                print(output)
                break
            output = torch.zeros(1, requires_grad=True)
        output.sum().backward()
        """,
        f"a tensor computed in it may be trained on later (line {N + 8})",
    ),
    "V4: what the next pass trains on": (
        """\
        previous = None
        for x, y in loader:
            model.eval()
            output = model(x)
            if previous is not None:
                previous.sum().backward()
            previous = output
        """,
        f"a tensor computed in it may be trained on later (line {N + 6})",
    ),
    "V4: a global of the function that trains": (
        """\
        model.eval()
        target = model(torch.ones(2, 4))

        def train():
            (model(loader[0][0]) - target).sum().backward()
        """,
        f"a tensor computed in it may be trained on later (line {N + 5})",
    ),
    "V4: kept in an attribute": (
        """\
        class Trainer:
            def validate(self):
                self.out = model(loader[0][0])
        """,
        f"it keeps a tensor for later (line {N + 3})",
    ),
    "V4: kept in a list from outside": (
        """\
        def test(outputs):
            for x, y in loader:
                outputs.append(model(x))
        """,
        f"it keeps a tensor for later (line {N + 3})",
    ),
    "V4: kept in a dictionary from outside": (
        """\
        state = {}

        def test():
            for x, y in loader:
                state["out"] = model(x)
        """,
        f"it keeps a tensor for later (line {N + 5})",
    ),
    "V4: kept in a global": (
        """\
        def test():
            global last
            last = model(loader[0][0])
        """,
        f"it keeps a tensor for later (line {N + 3})",
    ),
    "V4: kept by a function that is called": (
        """\
        class Buffer:
            def push_all(self, tensor):
                self.tensors = tensor

        buffer = Buffer()

        def test():
            buffer.push_all(model(loader[0][0]))
        """,
        f"it keeps a tensor for later (line {N + 8})",
    ),
    "V4: an action whose probability is trained on": (
        """\
        def sample_action(state):
            probabilities = torch.distributions.Categorical(logits=model(state))
            action = probabilities.sample()
            return action, probabilities.log_prob(action)

        action, log_prob = sample_action(torch.ones(4))
        (-log_prob).backward()
        """,
        f"what it returns may be trained on (line {N + 7})",
    ),
    "V4: a model's own method": (
        """\
        class VAE(nn.Module):
            def __init__(self):
                super().__init__()
                self.decoder = nn.Linear(4, 4)

            def sample(self, z):
                return self.decoder(z)

            def forward(self, z):
                return self.sample(z)
        """,
        None,
    ),
    "V3: gradients are asked for after model.eval()": (
        """\
        model.eval()
        x = torch.ones(1, 4, requires_grad=True)
        print(model(x).requires_grad)
        """,
        f"gradients are needed in it (line {N + 3})",
    ),
    "V4: used in the next pass": (
        """\
        before = torch.zeros(2, 3, requires_grad=True)
        for x, y in loader:
            (model(x) - before).sum().backward()
            model.eval()
            before = model(x)
            model.train()
        """,
        f"a tensor computed in it may be trained on later (line {N + 3})",
    ),
    "V9: a function that is called in the autocast block of the training": (
        """\
        def validate():
            print(model(loader[0][0]).argmax(1))

        for x, y in loader:
            with torch.autocast("cpu"):
                loss = criterion(model(x), y)
                validate()
            loss.backward()
        """,
        f"it shares an autocast block, which may keep weights without a graph (line {N + 5})",
    ),
    "V9: one autocast block for both": (
        """\
        for x, y in loader:
            with torch.autocast("cpu"):
                model.train()
                loss = criterion(model(x), y)
                model.eval()
                print(model(x).argmax(1))
            loss.backward()
        """,
        f"it shares an autocast block, which may keep weights without a graph (line {N + 2})",
    ),
    "the model's state goes on": (
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = nn.RNNCell(4, 4)
                self.hidden = torch.zeros(1, 4)

            def forward(self, x):
                self.hidden = self.rnn(x, self.hidden)
                return self.hidden

        net = Net()

        def validate():
            for x, y in loader:
                print(net(x).argmax(1))
        """,
        f"the model keeps self.hidden from one call to the next (line {N + 8})",
    ),
    "a forward with a frozen part": (
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.backbone, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

            def forward(self, x):
                self.backbone.eval()
                return self.head(self.backbone(x))

        print(Net()(loader[0][0]))
        """,
        "it computes a graph that nobody asks for, but only once",
    ),
    "a unit test": (
        """\
        import pytest

        def test_shape():
            model.eval()
            assert model(loader[0][0]).shape == (2, 3)
        """,
        None,
    ),
    "a discriminator that evaluates while the generator trains": (
        """\
        critic = nn.Linear(3, 1)
        for x, y in loader:
            critic.eval()
            fake = model(x)
            loss = -critic(fake).mean()
            optimizer.zero_grad()
            loss.backward()
        """,
        f"a tensor computed in it may be trained on later (line {N + 7})",
    ),
    "V3: a callable object that trains": (
        """\
        class Adapt:
            def __call__(self, x):
                model(x).sum().backward()

        adapt = Adapt()

        def evaluate():
            for x, y in loader:
                adapt(x)
                print(model(x))
        """,
        f"gradients are needed in it (line {N + 3})",
    ),
    "a model that is made, not called": (
        """\
        from models import registry

        def build():
            net = registry["vit"](pretrained=True)
            net.eval()
            return net
        """,
        None,
    ),
    "a decorator that looks at the function": (
        """\
        import hydra

        @hydra.main(config_path="conf")
        def evaluate(config):
            print(model(loader[0][0]))
        """,
        f"@hydra.main(config_path='conf') may need the function as it is (line {N + 3})",
    ),
    "a compiled function": (
        """\
        @torch.compile
        def predict():
            print(model(loader[0][0]))
        """,
        f"@torch.compile may need the function as it is (line {N + 1})",
    ),
    "a model that is only tried out": (
        """\
        def test():
            net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
            print(net(torch.randn(2, 3, 8, 8)).size())
        """,
        "it only tries out a model that it makes, on numbers that it makes",
    ),
    "profiled": (
        """\
        model.eval()
        with torch.profiler.profile() as report:
            model(torch.randn(2, 4))
        print(report.key_averages())
        """,
        f"it is profiled as it is (line {N + 2})",
    ),
    "what Lightning validates": (
        """\
        import lightning


        class Lit(lightning.LightningModule):
            def validation_step(self, batch, index):
                self.log("loss", criterion(model(batch[0]), batch[1]))
        """,
        None,
    ),
    "a decorator of the script's own that switches gradients off": (
        """\
        def without_gradients():
            def decorate(function):
                return (torch.inference_mode if len(loader) else torch.no_grad)()(function)

            return decorate


        @without_gradients()
        def evaluate():
            return model(loader[0][0])
        """,
        None,
    ),
    "a method that runs no layer": (
        """\
        class Net(nn.Module):
            def init_hidden(self):
                return torch.zeros(4)

            def forward(self, x):
                return x


        net = Net()


        def evaluate(x):
            hidden = net.init_hidden()
            with torch.no_grad():
                return net(x + hidden)
        """,
        None,
    ),
    "a function that compares models with functions": (
        """\
        def test_equal(one, other, x):
            return torch.allclose(one(x), other(x))


        test_equal(model, lambda x: x, torch.ones(1))
        test_equal(abs, model, torch.ones(1))
        """,
        None,
    ),
    "a suite on the header's line": (
        """\
        if loader: model.eval(); print([model(x) for x, y in loader])
        """,
        "the suite is written on the header's line",
    ),
    "volatile, in training": (
        """\
        for x, y in loader:
            x = Variable(x, volatile=True)
            loss = criterion(model(x), y)
            loss.backward()
        """,
        f"a tensor computed in it may be trained on later (line {N + 4})",
    ),
    "volatile, and nothing computed": (
        """\
        x = Variable(torch.ones(4), volatile=True)
        """,
        "volatile has no effect since torch 0.4: what it is used for needs torch.no_grad()",
    ),
    "volatile, where gradients are off already": (
        """\
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                print(model(Variable(x, volatile=True)))
        """,
        None,
    ),
    "volatile for those alone that switch gradients off": (
        """\
        def get_batch(source, evaluation=False):
            return Variable(source, volatile=evaluation)

        def evaluate():
            model.eval()
            with torch.no_grad():
                for x, y in loader:
                    print(model(get_batch(x, evaluation=True)))

        for x, y in loader:
            criterion(model(get_batch(x)), y).backward()
            criterion(model(get_batch(x, False)), y).backward()
        evaluate()
        """,
        None,
    ),
    "volatile for one that does not": (
        """\
        def get_batch(source, evaluation=False):
            return Variable(source, volatile=evaluation)

        print(get_batch(torch.ones(4), evaluation=True))
        with torch.no_grad():
            print(get_batch(torch.ones(4), evaluation=True))
        """,
        "volatile has no effect since torch 0.4: what it is used for needs torch.no_grad()",
    ),
    "volatile as the caller says": (
        """\
        def get_batch(source, evaluation=False):
            return Variable(source, volatile=evaluation)
        """,
        "volatile has no effect since torch 0.4: what it is used for needs torch.no_grad()",
    ),
    "targets are assigned, and predictions changed": (
        """\
        def assign(scores, y):
            probabilities = scores.sigmoid_()
            costs = -torch.log(probabilities + 1e-8)
            best = costs.gather(1, y[:, None])
            return best < best.mean() + 1

        for x, y in loader:
            scores = model(x)
            kept = assign(scores, y)
            loss = criterion(scores, y) * kept.sum()
            loss.backward()
        """,
        f"a tensor with a graph may be changed in place (line {N + 2})",
    ),
    "predictions are changed by what the function calls": (
        """\
        def squash(scores):
            return scores.sigmoid_()

        def assign(scores, y):
            probabilities = squash(scores)
            costs = -torch.log(probabilities + 1e-8)
            best = costs.gather(1, y[:, None])
            return best < best.mean() + 1

        for x, y in loader:
            scores = model(x)
            kept = assign(scores, y)
            loss = criterion(scores, y) * kept.sum()
            loss.backward()
        """,
        f"a tensor with a graph may be changed in place (line {N + 2})",
    ),
    "a part of a loss": (
        """\
        def weigh(scores, y):
            probabilities = scores.softmax(1)
            costs = -torch.log(probabilities + 1e-8)
            best = costs.gather(1, y[:, None])
            return best.mean()

        for x, y in loader:
            weigh(model(x), y).backward()
        """,
        None,
    ),
    "figures for NumPy": (
        """\
        import numpy as np

        def score(rows):
            columns = list(zip(*rows))
            ranks = np.argsort(columns[0])
            hits = [np.concatenate(each) for each in columns]
            means = [each.mean() for each in hits]
            print(means, ranks)

        rows = []
        for x, y in loader:
            output = model(x)
            criterion(output, y).backward()
            rows.append((output.detach().numpy(), y.numpy()))
        score(rows)
        """,
        None,
    ),
    "a loss scaler runs the backward": (
        """\
        from timm.utils import NativeScaler

        loss_scaler = NativeScaler()
        torch.save(loss_scaler.state_dict(), "scaler.pt")
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss_scaler(loss, optimizer, parameters=model.parameters())
        """,
        None,
    ),
    "a model's method switches gradients off itself": (
        """\
        class Agent(nn.Module):
            def __init__(self):
                super().__init__()
                self.policy = nn.Linear(4, 2)
                self.value = nn.Linear(4, 1)

            def step(self, x):
                with torch.no_grad():
                    action, value = self.policy(x), self.value(x)
                return action.numpy(), value.numpy()

            def act(self, x):
                return self.step(x)[0]

        agent = Agent()

        def get_action(x):
            return agent.act(x)

        def test_agent():
            for x, y in loader:
                print(get_action(x))

        for epoch in range(3):
            for x, y in loader:
                _, value = agent.step(x)
                print(value)
            test_agent()
        """,
        None,
    ),
    "evaluated once, at the end": (
        """\
        def compute_test():
            model.eval()
            print(criterion(model(loader[0][0]), loader[0][1]).item())

        compute_test()
        """,
        "it computes a graph that nobody asks for, but only once",
    ),
    "tried out in a loop": (
        """\
        for size in (2, 4):
            net = nn.Linear(4, size)
            scores = net(torch.randn(2, 4))
            assert scores.shape == (2, size)
        """,
        "it only tries a model out: nothing but shapes is asked of what it computes",
    ),
    "a constructor tries its layers": (
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(nn.Linear(4, 3))
                self.weight = nn.Parameter(torch.ones(3), requires_grad=True)
                self.eval()
                self.width = self.layers(torch.ones(1, 4)).shape[1]
                self.train()

            def forward(self, x):
                return self.layers(x) * self.weight

        for seed in range(3):
            net = Net()
            criterion(net(loader[0][0]), loader[0][1]).backward()
        """,
        "it computes a graph that nobody asks for, but only once",
    ),
}


@pytest.mark.parametrize(("code", "because"), LEAVES.values(), ids=list(LEAVES))
def test_leaves(code: str, because: str | None) -> None:
    if because is None:
        check_silent(NoGradEval, script(code))
    else:
        check_leaves(NoGradEval, script(code), because)


PROMISES = {
    "linear": ("nn.Linear(4, 4)", Promise.BITWISE),
    "convolution": ("nn.Sequential(nn.Conv1d(2, 2, 3), nn.BatchNorm1d(2))", Promise.BITWISE),
    "GRU": ("nn.GRU(4, 4)", Promise.BITWISE),
    "V6: LSTM has another kernel on the CPU": ("nn.LSTM(4, 4)", Promise.PRECISION),
    "V6: transformers have a fused path": ("nn.TransformerEncoderLayer(4, 1)", Promise.PRECISION),
    "V6: attention is chosen anew": ("nn.MultiheadAttention(4, 1)", Promise.PRECISION),
    "V6: compiled for each case": ("torch.compile(nn.Linear(4, 4))", Promise.PRECISION),
    "V6: nobody knows": ("build()", Promise.PRECISION),
}


@pytest.mark.parametrize(("made", "promise"), PROMISES.values(), ids=list(PROMISES))
def test_promises_what_the_layers_keep(made: str, promise: Promise) -> None:
    code = script(
        f"from models import build\n\nnet = {made}\n\ndef test():\n    net.eval()\n    print(net(loader[0][0]))\n"
    )
    (site,) = run(NoGradEval, code).sites

    assert site.rewrites
    assert site.promise is promise


def test_imports_torch_where_it_is_not() -> None:
    before = "from torch import nn\n\nmodel = nn.Linear(4, 3)\n\ndef test(x):\n    print(model(x))\n"
    check_rewrites(
        NoGradEval,
        before,
        before.replace("from torch import nn\n", "from torch import nn\nimport torch\n").replace(
            "def test", "@torch.no_grad()\ndef test"
        ),
    )


ACTS = """\
import torch
from nets import Net


class Player:
    def __init__(self, policy):
        self.policy = policy

    def act(self, net, state):
        found = net.forward(torch.from_numpy(state).float())
        return found.argmax(1).item()

    def play(self, env):
        state = env.reset()
        for _ in range(100):
            state = env.step(self.act(self.policy, state))


policy = Net(4).to("cuda")
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
Player(policy).play(make_env())
policy(torch.zeros(2, 4)).sum().backward()
optimizer.step()
"""


def test_a_model_of_an_unknown_class_may_have_another_name_where_it_acts() -> None:
    check_rewrites(NoGradEval, ACTS, ACTS.replace("    def act(", "    @torch.no_grad()\n    def act(", 1))
    # What a function of elsewhere returns, and what comes of that, may be two things.
    check_silent(NoGradEval, ACTS.replace("Net(4)", "Net.of(4)"))


def test_names_no_grad_as_the_script_does() -> None:
    before = "from torch import nn, no_grad\n\nmodel = nn.Linear(4, 3)\n\ndef test(x):\n    print(model(x))\n"
    check_rewrites(NoGradEval, before, before.replace("def test", "@no_grad()\ndef test"))


def test_leaves_where_torch_is_something_else() -> None:
    code = "from torch import nn\n\ntorch = 1\nmodel = nn.Linear(4, 3)\n\ndef test(x):\n    print(model(x))\n"
    check_leaves(NoGradEval, code, "torch cannot be named where it would be needed")


def test_leaves_where_the_only_import_of_torch_is_another_functions() -> None:
    code = (
        "from torch import nn\nfrom common import *\n\nmodel = nn.Linear(4, 3)\n\ndef test(x):\n    print(model(x))\n\n"
        "def load():\n    import torch\n    return torch.ones(4)\n\ndef other():\n    return torch.ones(3)\n"
    )
    check_leaves(NoGradEval, code, "torch cannot be named where it would be needed")


def test_a_function_may_import_torch_for_itself() -> None:
    before = (
        "from torch import nn\n\nmodel = nn.Linear(4, 3)\n\ndef test(x):\n    print(model(x))\n\n"
        "def load():\n    import torch\n    return torch.ones(4)\n"
    )
    check_rewrites(
        NoGradEval,
        before,
        before.replace("from torch import nn\n", "from torch import nn\nimport torch\n").replace(
            "def test", "@torch.no_grad()\ndef test"
        ),
    )


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")
@pytest.mark.parametrize(
    "name", [name for name in REWRITES if "another file" not in name and "nothing here" not in name]
)
def test_prints_the_same(name: str) -> None:
    before, after = (script(each) for each in REWRITES[name])
    # An argument that torch has no more, and what a tensor shows of its graph.
    was = re.sub(r",\s+grad_fn=<\w+>", "", run_script(before.replace(", volatile=True", "")))

    assert was == run_script(after)


# Scripts that are left, and what in them must not run without gradients.
WRONG = {
    "V4: what the next pass trains on": "output = model(x)",
    "V3: attacked images": "loss = criterion(model(images), labels)",
    "V4: the result is trained on": "return net(x)",
    "V4: a teacher inside the iteration": "loss = criterion(model(x), y) + (model(x) - soft).pow(2).mean()",
    "V4: features for later training": "features = model(torch.ones(2, 4))",
    "V4: the names of the iteration, after the loop": "loss = criterion(model(loader[1][0]), loader[1][1])",
    "V4: an action whose probability is trained on": (
        "probabilities = torch.distributions.Categorical(logits=model(state))"
    ),
    "a discriminator that evaluates while the generator trains": "loss = -critic(fake).mean()",
}
AFTERWARDS = {"V3: attacked images": "evaluate_attack(*loader[0])\n"}
SHOW = "print([p.grad for p in model.parameters()])\n"


@pytest.mark.parametrize(("name", "line"), WRONG.items(), ids=list(WRONG))
def test_what_is_left_could_not_do_without_gradients(name: str, line: str) -> None:
    code = script(LEAVES[name][0]) + AFTERWARDS.get(name, "") + SHOW
    assert line in code
    indent = code[: code.index(line)].rpartition("\n")[2]
    wrong = code.replace(line, f"with torch.no_grad():\n{indent}    {line}")

    right = run_script(code)
    try:
        assert run_script(wrong) != right
    except RuntimeError as error:
        assert "does not require grad" in str(error)


def test_leaves_what_a_model_keeps_of_its_forward() -> None:
    code = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        self.hidden = self.layer(x)
        return self.hidden.argmax(1)


net = Net()
net.eval()
for x in torch.randn(3, 8, 4):
    print(net(x))
net.hidden.sum().backward()
"""
    check_leaves(NoGradEval, code, "the model's forward keeps a tensor that is read elsewhere (line 11)")


def test_rewrites_what_layers_of_another_model_compute_for_a_loss() -> None:
    code = """\
import torch
from torch import nn
from torchvision import models

features = nn.Sequential(*list(models.vgg16().features.children())[:9])
net = nn.Conv2d(3, 3, 3, padding=1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 8, 3, 32, 32):
    wanted = features(x)
    wanted = wanted.detach()
    loss = (features(net(x)) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    once = "    wanted = features(x)\n"
    check_rewrites(NoGradEval, code, code.replace(once, f"    with torch.no_grad():\n    {once}"))


def test_rewrites_what_a_model_computes_that_was_saved_as_a_whole() -> None:
    code = """\
import torch

net = torch.load("net.pt", weights_only=False)
net.eval()
net = net.cuda()
for x in torch.randn(3, 8, 4):
    print(net(x.cuda()).argmax(1))
"""
    once = "    print(net(x.cuda()).argmax(1))\n"
    check_rewrites(NoGradEval, code, code.replace(once, f"    with torch.no_grad():\n    {once}"))


def test_is_silent_about_a_model_from_a_file_that_is_trained() -> None:
    code = """\
import torch

net = torch.load("net.pt", weights_only=False)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 8, 4):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
"""
    check_silent(NoGradEval, code)


BESIDE = """\
import torch
from torch import nn


class Metric(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(2, 2)

    def forward(self, x):
        self.last = self.scale(x)
        return self.last.sum()


class Net(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 2), *layers)

    def forward(self, x):
        return self.layers(x)


def evaluate(net, data):
    net.eval()
    for x in data:
        print(net(x).argmax(1))


net = Net(nn.ReLU())
metric = Metric()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 8, 4):
    optimizer.zero_grad()
    metric(net(x)).backward()
    optimizer.step()
    print(metric.last)
evaluate(net, torch.randn(3, 8, 4))
"""


def test_rewrites_beside_another_model_that_keeps_what_it_computes() -> None:
    expected = BESIDE.replace("def evaluate", "@torch.no_grad()\ndef evaluate")
    check_rewrites(NoGradEval, BESIDE, expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("nn.ReLU()", "metric", id="it is a layer of the model"),
        pytest.param("nn.ReLU()", "make()", id="a layer of the model is not known"),
        pytest.param("nn.ReLU()", "*torch.load('layers.pt')", id="its layers are not known"),
        pytest.param("print(net(x).argmax(1))", "print(metric(net(x)).item())", id="it is called, too"),
        pytest.param("print(net(x).argmax(1))", "print(score(metric, net(x)))", id="a function calls it"),
        pytest.param("return self.layers(x)", "return run(self.layers, x)", id="the model calls what is not known"),
    ],
)
def test_leaves_what_may_run_a_model_that_keeps_what_it_computes(old: str, new: str) -> None:
    code = BESIDE.replace("net = Net", "metric = Metric()\nnet = Net").replace("ReLU())\nmetric = Metric()", "ReLU())")
    code = code.replace("from torch import nn\n", "from torch import nn\n\nfrom parts import make, run\n")
    code = code.replace("def evaluate", "def score(metric, x):\n    return metric(x).item()\n\n\ndef evaluate")
    assert old in code

    check_leaves(
        NoGradEval, code.replace(old, new), "the model's forward keeps a tensor that is read elsewhere (line 13)"
    )


@pytest.mark.parametrize(
    ("kept", "is_left"),
    [
        pytest.param("list(range(x.shape[0]))", False, id="numbers"),
        pytest.param("[[0, 1], [len(x)]]", False, id="lists of numbers"),
        pytest.param("[0, self.layer(x)]", True, id="a tensor among them"),
        pytest.param("[[self.layer(x)]]", True, id="a tensor in a list of a list"),
        pytest.param("[]", True, id="a list of which it is not seen what comes into it"),
    ],
)
def test_a_model_that_keeps_a_list(*, kept: str, is_left: bool) -> None:
    code = f"""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        self.kept = {kept}
        return self.layer(x).argmax(1)


net = Net()
net.eval()
for x in torch.randn(3, 8, 4):
    print(net(x))
net.layer(net.kept[0]).sum().backward()
"""
    assert [each.rewrites for each in run(NoGradEval, code).sites] == [not is_left]


HANDED_ON = """\
import torch
from torch import nn


def predict(net, x, on_output=None):
    output = net(x)
    if on_output is not None:
        on_output(output)
    return output.argmax(-1)


def sample(net, x):
    scores = net(x)
    return scores.argmax(-1), {later}


net = nn.Linear(4, 2)
outputs = []
print(predict(net, torch.randn(3, 4), {callback}))
best, score = sample(net, torch.randn(3, 4))
(outputs[0].sum() + score()).backward()
"""


def test_leaves_what_hands_a_graph_to_a_callback_or_a_closure() -> None:
    code = HANDED_ON.format(later="lambda: scores.sum()", callback="outputs.append")
    messages = {site.message for site in run(NoGradEval, code).sites}
    assert run(NoGradEval, code).after == code
    assert messages == {"it keeps a tensor for later (line 8)", "what it returns may be trained on (line 21)"}


IN_PARTS = """\
import torch
from torch import nn

encoder, head = nn.Linear(4, 4), nn.Linear(4, 2)


def forward(x):
    outputs = {"hidden": encoder(x)}
    outputs.update(predict(outputs["hidden"]))
    return outputs


def predict(hidden):
    return {f"scores {each}": head(hidden) for each in range(2)}


for _ in range(2):
    outputs = forward(torch.randn(3, 4))
    sum(outputs["scores 0"]).sum().backward()
    print(head.weight.grad)
"""


def test_leaves_a_part_of_training_whose_name_says_that_it_predicts() -> None:
    check_leaves(NoGradEval, IN_PARTS, "what it returns may be trained on (line 10)")


KEEPS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        self.hidden = self.layer(x)
        return self.scores()

    def scores(self):
        return self.hidden.argmax(1)

    def penalty(self):
        return self.layer.weight.pow(2).sum()


def evaluate(net, data):
    net.eval()
    for x in data:
        print(net(x))


net = Net()
evaluate(net, torch.randn(3, 8, 4))
net.penalty().backward()
"""


def test_leaves_what_a_model_keeps_for_a_method_of_its_own() -> None:
    kept = KEEPS.replace("self.layer.weight", "self.hidden")
    check_leaves(NoGradEval, kept, "the model's forward keeps a tensor that is read elsewhere (line 11)")


def test_what_a_model_keeps_for_its_forward_alone_is_not_kept() -> None:
    check_rewrites(NoGradEval, KEEPS, KEEPS.replace("def evaluate", "@torch.no_grad()\ndef evaluate"))


def test_leaves_what_a_forward_hook_keeps() -> None:
    code = """\
import torch
from torch import nn

model = nn.Linear(4, 2)
kept = {}


def hook(module, inputs, output):
    kept["output"] = output


model.register_forward_hook(hook)
model.eval()
for x in torch.randn(3, 8, 4):
    print(model(x).argmax(1))
kept["output"].sum().backward()
"""
    check_leaves(NoGradEval, code, "a forward hook may keep tensors for later (line 12)")


KEEPING = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.last = None

    def forward(self, x):
        y = self.layer(x)
        {kept}
        return y


def evaluate(net, data):
    net.eval()
    for x in data:
        print(net(x).argmax(1))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
evaluate(net, torch.randn(3, 8, 4))
optimizer.zero_grad()
{read}.sum().backward()
optimizer.step()
"""


@pytest.mark.parametrize(
    ("kept", "read"),
    [
        pytest.param("setattr(self, 'last', y)", "net.last", id="setattr"),
        pytest.param("self.__dict__['last'] = y", "net.last", id="the dictionary of its attributes"),
        pytest.param("vars(self)['last'] = y", "net.last", id="vars"),
        pytest.param("object.__setattr__(self, 'last', y)", "net.last", id="past its class"),
        pytest.param("self.last = y", "getattr(net, 'last')", id="it is read by its name"),
        pytest.param("self.last = y", "vars(net)['last']", id="it is read from its attributes"),
    ],
)
def test_leaves_a_model_that_keeps_a_tensor_for_training_by_its_name(kept: str, read: str) -> None:
    code = KEEPING.format(kept=kept, read=read)
    check_leaves(NoGradEval, code, "the model's forward keeps a tensor that is read elsewhere (line 13)")


def test_rewrites_beside_a_tensor_that_is_kept_without_its_graph() -> None:
    code = KEEPING.format(kept="setattr(self, 'last', y.detach())", read="net(net.last)")
    check_rewrites(NoGradEval, code, code.replace("def evaluate", "@torch.no_grad()\ndef evaluate"))


DECODER = """\
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.embed = nn.Embedding(4, 4)
        self.bank = torch.zeros(3, 4)

    def forward(self, x):
        return self.layer(x)

    def sample(self, x):
        words = []
        for i in range(3):
            h = self.layer(x)
            _, word = h.max(1)
            words.append({kept})
            x = self.embed(word)
        return torch.stack(words, 1)


decoder = Decoder()
print(decoder.sample(torch.randn(2, 4)))
"""


@pytest.mark.parametrize("name", ["sample", "indices"])
def test_a_models_method_that_returns_indices_needs_no_graph(name: str) -> None:
    before = script(DECODER.format(kept="word").replace("sample", name))
    check_rewrites(NoGradEval, before, before.replace(f"    def {name}", f"    @torch.no_grad()\n    def {name}"))


@pytest.mark.parametrize(
    "code",
    [
        DECODER.format(kept="h"),
        DECODER.format(kept="word").replace("x = self.embed", "self.bank[i] = h[0]; x = self.embed"),
        DECODER.format(kept="word").replace("x = self.embed", "self.last = h; x = self.embed"),
    ],
    ids=["it returns what has a graph", "it writes into a bank", "it keeps a tensor"],
)
def test_a_models_method_serves_its_training_where(code: str) -> None:
    check_silent(NoGradEval, script(code))


GENERATES = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(9, 9)

    def forward(self, x):
        return self.rows(x)

    def generate(self, x, number):
        {head}x = torch.cat((x, torch.multinomial(self(x)[:, -1].softmax(-1), 1)), 1)
        return x


net = Net()
print(net.generate(torch.zeros((1, 1), dtype=torch.long), 500)[0].tolist())
"""


def test_what_is_called_once_calls_its_model_in_a_loop() -> None:
    before = script(GENERATES.format(head="for _ in range(number):\n            "))
    last = before.splitlines()[-1]
    check_rewrites(NoGradEval, before, before.replace(last, f"with torch.no_grad():\n    {last}"))
    once = "it computes a graph that nobody asks for, but only once"
    check_leaves(NoGradEval, script(GENERATES.format(head="")), once)


RETURNED = """\
import torch
from torch import nn

model = nn.Linear(784, 10)


def validate(loader):
    model.eval()
    kept = []
    for images, labels in loader:
        out = model(images)
        kept.append(RESULT)
    return kept
"""
WITHOUT_GRAPH = [
    *("out.gt(0)", "out.greater(0)", "out.ge(0)", "out.greater_equal(0)", "out.lt(0)", "out.less(0)", "out.le(0)"),
    *("out.less_equal(0)", "out.ne(0)", "out.not_equal(0)", "torch.less(out, 0)", "torch.not_equal(out, 0)"),
    *("out.logical_not()", "out.signbit()", "out.isneginf()", "torch.isin(out, out)", "out.is_nonzero()"),
    *("out.char()", "torch.argwhere(out)", "torch.bucketize(out, out)", "out.new_full((2,), 1)", "out.stride()"),
    *("out.cummax(1)[1]", "out.nanmedian(1)[1]", "out.max(1)[-1]", "out.max(1).indices", "out.frexp()[1]"),
    "nn.functional.one_hot(out)",
]


@pytest.mark.parametrize("result", WITHOUT_GRAPH)
def test_what_has_no_graph_may_leave_by_whatever_name(result: str) -> None:
    code = RETURNED.replace("RESULT", result)

    check_rewrites(NoGradEval, code, code.replace("def validate", "@torch.no_grad()\ndef validate"))


@pytest.mark.parametrize(
    "result",
    [
        *("out.mul(2)", "out.multiply(2)", "out.div(2)", "out.divide(2)", "out.true_divide(2)", "out.subtract(1)"),
        *("out.acos()", "out.arccos()", "out.max(1)[0]", "out.max(1).values", "out.sort(1)[0]", "out.unknown()"),
        *("out.unique()", "out.bernoulli()"),  # whose backward raises, and gives zeros
    ],
)
def test_what_may_have_a_graph_may_not(result: str) -> None:
    reason = "it returns tensors to code outside this file, which may train on them"

    check_leaves(NoGradEval, RETURNED.replace("RESULT", result), reason)


def test_what_is_chosen_at_random_keeps_its_graph() -> None:
    reason = "it returns tensors to code outside this file, which may train on them"

    check_leaves(NoGradEval, "import random\n" + RETURNED.replace("RESULT", "random.choice([out, images])"), reason)


MIXED = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
critic = nn.Linear(4, 3)
target = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
criterion = nn.MSELoss()
optimizer = torch.optim.SGD([*net.parameters(), *critic.parameters()], lr=0.1)
loader = [(torch.randn(2, 4), torch.randn(2, 3)) for _ in range(3)]
"""
# Beside a pass that is not trained on, something is computed that is.
TRAINED_BESIDE = {
    "a loss is given a graph of elsewhere, and a detached target": (
        """\
        for x, y in loader:
            q = net(x)
            later = target(x)
            goal = y + 0.9 * later
            loss = criterion(q, goal.detach())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    ),
    "two target passes, each with a loss of another graph behind it": (
        """\
        for x, y in loader:
            q = net(x)
            v = critic(x)
            later = target(x)
            goal = y + 0.9 * later
            loss = criterion(q, goal.detach())

            other = net(x + 1)
            v_goal = other - q
            v_loss = criterion(v, v_goal.detach())
            optimizer.zero_grad()
            loss.backward()
            v_loss.backward()
            optimizer.step()
        """
    ),
    "another name of a graph of elsewhere": (
        """\
        for x, y in loader:
            q = net(x)
            later = target(x)
            also = q
            goal = later + 1
            double = also * 2
            again = target(x + 1)
            loss = (double - goal.detach() - again.detach()).pow(2).mean()
            loss.backward()
        """
    ),
    "a column of a tensor of elsewhere": (
        """\
        for x, y in loader:
            q = net(x)
            later = target(x)
            first = q[:, 0]
            again = target(x + 1)
            loss = (first - later[:, 0].detach() - again[:, 0].detach()).pow(2).mean()
            loss.backward()
        """
    ),
    "a tensor of elsewhere is transposed": (
        """\
        for x, y in loader:
            q = net(x)
            later = target(x)
            turned = q.T
            again = target(x + 1)
            loss = (turned - later.T.detach() - again.T.detach()).pow(2).mean()
            loss.backward()
        """
    ),
    "losses of elsewhere are added up by sum()": (
        """\
        for x, y in loader:
            one = criterion(net(x), y)
            two = criterion(critic(x), y)
            later = target(x)
            total = sum([one, two])
            again = target(x + 1)
            print(later.sum().item(), again.sum().item())
            total.backward()
        """
    ),
    "a tensor of elsewhere is unpacked": (
        """\
        for x, y in loader:
            q = net(x)
            later = target(x)
            one, two = q
            again = target(x + 1)
            loss = (one - later[0].detach()).pow(2).mean() + two.sum() + again.detach().sum()
            loss.backward()
        """
    ),
    "the rows of a tensor of elsewhere are collected": (
        """\
        for x, y in loader:
            q = net(x)
            rows = []
            later = target(x)
            for row in q:
                rows.append(row)
            again = target(x + 1)
            loss = sum(rows).sum() + later.detach().sum() + again.detach().sum()
            loss.backward()
        """
    ),
    "a loss of elsewhere is scaled in place": (
        """\
        for x, y in loader:
            loss = criterion(net(x), y)
            later = target(x)
            loss.mul_(3.0)
            again = target(x + 1)
            print(later.sum().item(), again.sum().item())
            loss.backward()
        """
    ),
    "what is called in between is not known": (
        """\
        import operator
        make = operator.attrgetter("__call__")
        compute = make(net)
        for x, y in loader:
            later = target(x)
            q = compute(x)
            again = target(x + 1)
            loss = criterion(q, later.detach() + again.detach())
            loss.backward()
        """
    ),
    "losses are kept in a dictionary and added up later": (
        """\
        for x, y in loader:
            q = net(x)
            losses = {}
            later = target(x)
            losses["one"] = criterion(q, later.detach())
            again = target(x + 1)
            losses["two"] = criterion(q, again.detach())
            sum(losses.values()).backward()
        """
    ),
    "losses are appended to a list of elsewhere": (
        """\
        for x, y in loader:
            q = net(x)
            losses = []
            later = target(x)
            losses.append(criterion(q, later.detach()))
            again = target(x + 1)
            losses.append(criterion(q, again.detach()))
            torch.stack(losses).sum().backward()
        """
    ),
    "losses are appended to a list that has another name": (
        """\
        for x, y in loader:
            q = net(x)
            losses = []
            every = losses
            later = target(x)
            losses.append(criterion(q, later.detach()))
            again = target(x + 1)
            losses.append(criterion(q, again.detach()))
            sum(every).backward()
        """
    ),
    "a helper runs the backward": (
        """\
        def learn(value):
            value.backward()

        for x, y in loader:
            q = net(x)
            later = target(x)
            loss = criterion(q, later.detach())
            learn(loss)
        """
    ),
    "a tuple of losses is returned": (
        """\
        def losses(x, y):
            q = net(x)
            later = target(x)
            goal = later.detach()
            one = criterion(q, goal)
            again = target(x + 1)
            two = criterion(q, again.detach())
            return one, two

        for x, y in loader:
            sum(losses(x, y)).backward()
        """
    ),
    "a closure of the optimizer runs the backward": (
        """\
        for x, y in loader:
            q = net(x)
            later = target(x)
            loss = criterion(q, later.detach())
            again = target(x + 1)
            extra = criterion(q, again.detach())
            def closure():
                optimizer.zero_grad()
                (loss + extra).backward()
                return loss
            optimizer.step(closure)
        """
    ),
    "losses are kept as attributes": (
        """\
        class Trainer:
            def learn(self, x, y):
                q = net(x)
                later = target(x)
                self.loss = criterion(q, later.detach())
                again = target(x + 1)
                self.other = criterion(q, again.detach())
                self.update()
            def update(self):
                (self.loss + self.other).backward()
        trainer = Trainer()
        for x, y in loader:
            trainer.learn(x, y)
        """
    ),
    "a graph comes in by a parameter": (
        """\
        def learn(q, x):
            later = target(x)
            here = q
            again = target(x + 1)
            value = here.mean(1)
            third = target(x + 2)
            loss = (value - later.mean(1).detach() - again.mean(1).detach() - third.mean(1).detach()).pow(2).mean()
            loss.backward()
        for x, y in loader:
            learn(net(x), x)
        """
    ),
    "a function computes with a graph of elsewhere": (
        """\
        def average(values):
            return values.mean(1)
        for x, y in loader:
            q = net(x)
            later = target(x)
            value = average(q)
            again = target(x + 1)
            loss = (value - later.mean(1).detach() - again.mean(1).detach()).pow(2).mean()
            loss.backward()
        """
    ),
    "a comprehension computes with graphs of elsewhere": (
        """\
        for x, y in loader:
            outs = [net(x), critic(x)]
            later = target(x)
            means = [each.mean() for each in outs]
            again = target(x + 1)
            loss = sum(means) - later.mean().detach() - again.mean().detach()
            loss.backward()
        """
    ),
    "map() computes with graphs of elsewhere": (
        """\
        for x, y in loader:
            outs = [net(x), critic(x)]
            later = target(x)
            means = list(map(torch.mean, outs))
            again = target(x + 1)
            loss = sum(means) - later.mean().detach() - again.mean().detach()
            loss.backward()
        """
    ),
    "a penalty on a weight": (
        """\
        for x, y in loader:
            later = target(x)
            decay = critic.weight.pow(2).sum()
            again = target(x + 1)
            loss = (net(x) - later.detach() - again.detach()).pow(2).mean() + decay
            loss.backward()
        """
    ),
    "a layer's weight is used without the layer": (
        """\
        import torch.nn.functional as F
        for x, y in loader:
            later = target(x)
            out = F.linear(x, critic.weight)
            again = target(x + 1)
            loss = (out - later.detach() - again.detach()).pow(2).mean()
            loss.backward()
        """
    ),
    "a distribution of what a model computed": (
        """\
        for x, y in loader:
            d = torch.distributions.Normal(net(x), 1.0)
            later = target(x)
            lp = d.log_prob(y)
            again = target(x + 1)
            loss = lp.mean() - later.mean().detach() - again.mean().detach()
            loss.backward()
        """
    ),
    "a lambda hands a loss on": (
        """\
        def evaluate(x, y):
            out = net(x)
            return criterion(out, y)
        def step(f):
            f().backward()
        for x, y in loader:
            step(lambda: evaluate(x, y))
        """
    ),
}


@pytest.mark.parametrize("body", TRAINED_BESIDE.values(), ids=list(TRAINED_BESIDE))
def test_what_reaches_a_backward_keeps_its_graph(body: str) -> None:
    code = MIXED + dedent(body) + "print([p.grad for p in (*net.parameters(), *critic.parameters())])\n"

    sites = run(NoGradEval, code).sites

    assert sites
    assert run_script(run(NoGradEval, code).after) == run_script(code)


def test_a_loss_that_code_of_elsewhere_trains_on_stays_out() -> None:
    before = MIXED + dedent(
        """\
        from theirs import Updater

        updater = Updater(optimizer)
        for x, y in loader:
            q = net(x)
            later = target(x)
            loss = criterion(q, later.detach())
            updater.apply(loss)
        """
    )
    after = before.replace("    later = target(x)\n", "    with torch.no_grad():\n        later = target(x)\n")
    check_rewrites(NoGradEval, before, after)


def test_numbers_are_added_up_beside_a_model() -> None:
    before = MIXED + dedent(
        """\
        total = 0
        net.eval()
        for x, y in loader:
            total += criterion(net(x), y).item()
        print("{:.4f}".format(total))
        criterion(critic(loader[0][0]), loader[0][1]).backward()
        """
    )
    loop = before[before.index("for x, y in loader:\n") : before.index("print(")]
    wrapped = "with torch.no_grad():\n" + "".join(f"    {each}\n" for each in loop.splitlines())
    check_rewrites(NoGradEval, before, before.replace(loop, wrapped))


def test_to_freeze_needs_no_gradients() -> None:
    code = (
        "import torch\nfrom torch import nn\n\n\n"
        "def evaluate(model, batches):\n    model.head.requires_grad_(False)\n    for p in model.body.parameters():\n"
        "        p.requires_grad = False\n    model.eval()\n    for x in batches:\n        print(model(x))\n"
    )
    check_rewrites(NoGradEval, code, code.replace("def evaluate", "@torch.no_grad()\ndef evaluate"))


def test_nothing_is_said_of_what_only_has_buffers() -> None:
    code = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Bands(nn.Module):
    def __init__(self, bands=8, size=64):
        super().__init__()
        window = torch.hann_window(size).float()
        self.register_buffer("window", window)
        self.register_buffer("basis", torch.rand(bands, size))
        self.size = size

    def forward(self, x):
        return (self.basis @ (self.window * x).T).clamp(min=1e-5).log10()


bands = Bands().cuda()
net = nn.Linear(8, 64).cuda()
loader = DataLoader(torch.randn(100, 64), 4)
shown = []
for x in loader:
    x = x.cuda()
    shown.append({}(x).detach())
for x in loader:
    x = x.cuda()
    net(bands(x).T).square().mean().backward()
"""

    check_silent(NoGradEval, code.format("bands"))
    # The same of a model with parameters is said.
    assert run(NoGradEval, code.format("nn.Linear(64, 8).cuda()")).after != code.format("nn.Linear(64, 8).cuda()")


def test_nothing_is_said_of_a_frozen_model() -> None:
    code = (
        "import torch\nfrom torch import nn\n\nmodel = nn.Linear(4, 1)\nmodel.requires_grad_(False)\n\n\n"
        "def evaluate(model):\n    for x in torch.randn(3, 8, 4):\n        print(model(x))\n\n\n"
        "evaluate(model)\nevaluate(model)\n"
    )
    check_silent(NoGradEval, code)
    thawed = code.replace("model.requires_grad_(False)\n", "")
    check_rewrites(NoGradEval, thawed, thawed.replace("def evaluate", "@torch.no_grad()\ndef evaluate"))


@pytest.mark.parametrize(
    ("made", "helper", "promise"),
    [
        pytest.param("nn.Linear(4, 1)", "model(x)", Promise.BITWISE, id="the same bits"),
        pytest.param("nn.LSTM(4, 1)", "model(x)", Promise.PRECISION, id="another kernel on the CPU"),
        pytest.param("nn.Linear(4, 1)", "library.scaled(model(x))", Promise.PRECISION, id="code that is not known"),
    ],
)
def test_what_a_function_runs_decides_what_is_promised(made: str, helper: str, promise: Promise) -> None:
    code = (
        f"import library\nimport torch\nfrom torch import nn\n\nmodel = {made}\n\n\n"
        f"def predict(x):\n    return {helper}\n\n\n"
        "def evaluate(batches):\n    for x in batches:\n        print(predict(x)[0].max())\n\n\n"
        "for x in torch.randn(3, 8, 4):\n    predict(x)[0].sum().backward()\n"
    )
    sites = run(NoGradEval, code).sites

    assert [each.promise for each in sites if each.line == 12] == [promise]


ROLLOUT = """\
import torch
from torch import nn
from torch.distributions import Normal

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for frame in range(100):
    chances, actions, states = [], [], []
    for state in torch.randn(20, 1, 4):
        mean = model(state)
        policy = Normal(mean, 1)
        action = policy.DRAW()
        chances.append(policy.log_prob(action))
        actions.append(action)
        states.append(state)
    old, actions, states = torch.cat(chances)CUT, torch.cat(actions), torch.cat(states)
    for _ in range(4):
        optimizer.zero_grad()
        new = Normal(model(states), 1).log_prob(actions)
        (old - new).exp().mean().backward()
        optimizer.step()
"""


def _rollout(draw: str, cut: str) -> str:
    return ROLLOUT.replace("DRAW", draw).replace("CUT", cut)


def test_a_rollout_whose_probabilities_are_detached_below_it() -> None:
    before = _rollout("sample", ".detach()")
    after = before.replace(
        "        mean = model(state)\n        policy = Normal(mean, 1)\n",
        "        with torch.no_grad():\n            mean = model(state)\n            policy = Normal(mean, 1)\n",
    )

    check_rewrites(NoGradEval, before, after)


@pytest.mark.parametrize(("draw", "cut"), [("rsample", ".detach()"), ("sample", "")], ids=["redrawn", "trained on"])
def test_a_rollout_that_may_be_trained_on_is_silent(draw: str, cut: str) -> None:
    check_silent(NoGradEval, _rollout(draw, cut))


@pytest.mark.parametrize(
    "scale",
    [
        pytest.param("nn.Parameter(torch.zeros(3)).cuda()", id="a parameter that was moved"),
        pytest.param("nn.Parameter(torch.zeros(3)) * 2", id="a parameter, doubled"),
        pytest.param("-nn.Parameter(torch.zeros(3))", id="a parameter, negated"),
        pytest.param("nn.Parameter(torch.zeros(3)).T", id="a view of a parameter"),
        pytest.param("abs(nn.Parameter(torch.zeros(3)))", id="a parameter without its signs"),
        pytest.param("torch.zeros(3).requires_grad_()", id="a tensor that was asked for gradients"),
    ],
)
def test_what_is_computed_with_what_starts_a_graph_may_be_trained_on(scale: str) -> None:
    code = f"""\
import torch
from torch import nn

scale = {scale}
model = nn.Linear(3, 3).cuda()


def evaluate(batches):
    model.eval()
    kept = []
    for x in batches:
        kept.append((scale * model(x.cuda()).sum().item()).sum())
    return kept


sum(evaluate(torch.zeros(4, 2, 3))).backward()
"""
    check_leaves(NoGradEval, code, "what it returns may be trained on (line 16)")


def test_nothing_is_said_of_what_calls_a_model_within_no_grad_two_functions_below() -> None:
    code = """\
import torch
from torch import nn


class Process:
    def bound(self, model, images):
        with torch.no_grad():
            terms = [self.term(model, images) for _ in range(4)]
        return torch.stack(terms)

    def term(self, model, images):
        return model(images).mean()


def evaluate(model, process, images):
    model.eval()
    return sum(process.bound(model, images).item() for _ in range(10))


model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).cuda()
print(evaluate(model, Process(), torch.zeros(8, 3).cuda()))
"""
    check_silent(NoGradEval, code)
    with_gradients = code.replace("with torch.no_grad():", "if images is not None:")
    check_rewrites(
        NoGradEval,
        with_gradients,
        with_gradients.replace("def evaluate", "@torch.no_grad()\ndef evaluate"),
    )


SELF_TRAINED = """\
import torch
import torch.nn.functional as F
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)
        self.optimizer = torch.optim.Adam(self.parameters())

    def value(self, x):
        return self.score(x)

    def learn(self, seen, reward, later):
        goal = reward + 0.9 * self.value(later)
        gain = goal - self.value(seen)
        loss = F.mse_loss(self.value(seen), goal.detach()) * gain.mean().detach()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


agent = Agent()
for seen, reward, later in episodes:
    agent.learn(seen, reward, later)
"""
GOALS = """\
        goal = reward + 0.9 * self.value(later)
        gain = goal - self.value(seen)
"""


def test_a_model_that_trains_itself_computes_its_targets_without_gradients() -> None:
    after = SELF_TRAINED.replace(GOALS, "        with torch.no_grad():\n" + GOALS.replace("        ", 12 * " "))

    check_rewrites(NoGradEval, SELF_TRAINED, after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(".detach()", "", id="with their graph"),
        pytest.param(".mean().detach()", ".mean()", id="one that is made of both is differentiated"),
        pytest.param(
            "        loss =", "        self.goal, self.gain = goal, gain\n        loss =", id="the model keeps them"
        ),
    ],
)
def test_a_model_that_trains_itself_keeps_the_graphs_it_needs(old: str, new: str) -> None:
    check_silent(NoGradEval, SELF_TRAINED.replace(old, new))


OFFERED = """\
import torch
import torch.nn.functional as F
from torch import nn


class Agent:
    def __init__(self):
        self.net, self.target = nn.Linear(4, 2), nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, batch):
        self.learn(*batch)

    def learn(self, seen, reward, later):
        goal = reward + 0.9 * self.target(later)
        loss = F.mse_loss(self.net(seen), goal.detach())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
"""


def test_code_elsewhere_calls_a_method_as_often_as_it_likes() -> None:
    goal = "        goal = reward + 0.9 * self.target(later)\n"

    check_rewrites(NoGradEval, OFFERED, OFFERED.replace(goal, f"        with torch.no_grad():\n    {goal}"))


def test_a_method_that_is_called_once_runs_once() -> None:
    main = "\n\ndef main(batch):\n    agent = Agent()\n    agent.update(batch)\n\n\nmain(torch.load('batch'))\n"

    check_leaves(NoGradEval, OFFERED + main, "it computes a graph that nobody asks for, but only once")


CALLED = """\
import torch
from torch import nn

net = nn.GRU(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(3, 8, 2, 4):
    loss = net(x)[0].sum()
    loss.backward()
    optimizer.step()


def spell(word):
    return net(word)[0].argmax(2).tolist()


print(spell(torch.randn(8, 1, 4)))
"""


def test_a_function_that_is_called_in_several_places_computes_again_and_again() -> None:
    before = CALLED + "print(spell(torch.randn(9, 1, 4)))\n"

    check_rewrites(NoGradEval, before, before.replace("def spell", "@torch.no_grad()\ndef spell"))


def test_a_function_that_is_called_once_is_passed_over_where_its_name_says_nothing() -> None:
    check_silent(NoGradEval, CALLED)


def test_leaves_a_function_that_is_called_in_several_places_for_training() -> None:
    returned = CALLED.replace("    return net(word)[0].argmax(2).tolist()", "    return net(word)[0]")

    check_silent(NoGradEval, returned + "spell(torch.randn(9, 1, 4)).sum().backward()\n")


WRITTEN_INTO = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net, student = nn.Linear(4, 4), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*net.parameters(), *student.parameters()], lr=0.1)


class Pair:
    def __init__(self, both):
        self.both = both

    def first(self):
        return self.both[:, :4]


def part(both):
    view = both[:, :4]
    return view, 4


class View(nn.Module):
    def forward(self, both):
        return both[:, :4]


def parts(both):
    for start in (0, 4):
        yield both[:, start : start + 4]


def fill(both, some):
    view = both[:, :4]
    view.add_(net(some))


for step in range(3):
    x, z, y = torch.randn(16, 8), torch.randn(16, 4), torch.randint(0, 3, (16,))
WRITES
    loss = F.cross_entropy(student(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
"""


@pytest.mark.parametrize(
    "writes",
    [
        pytest.param("v = x[:, :4]\nv.add_(net(z))", id="by a method of a view"),
        pytest.param("v = x[:, :4]\nv += net(z)", id="by an operator"),
        pytest.param("v = x[:, :4]\nv[:] = net(z)", id="by an index"),
        pytest.param("v = x[:, :4]\nv.copy_(net(z))", id="as a copy"),
        pytest.param("v = x[:, :4]\ntorch._foreach_add_([v], [net(z)])", id="by a function"),
        pytest.param("v = x[:, :4]\nh = net(z)\ntorch.add(v, h, out=v)", id="as the output of a function"),
        pytest.param("v = x[:, :4]\nfor _ in range(2):\n    v += net(z)", id="again and again"),
        pytest.param("q = x.view(-1)\nq[0] = net(z).sum()", id="in another shape"),
        pytest.param("q = x.contiguous()\nq[:, :4] = net(z)", id="where nothing need be copied"),
        pytest.param("v = x\nv[:, :4] += net(z)", id="by another name"),
        pytest.param("v = x[:, :4] if step else x[:, 4:]\nv.add_(net(z))", id="by one of two"),
        pytest.param("if (v := x[:, :4]) is not None:\n    v.add_(net(z))", id="by a name in an expression"),
        pytest.param("match (x[:, :4], 1):\n    case (v, _):\n        v.add_(net(z))", id="by a name in a pattern"),
        pytest.param("d = {'v': x[:, :4]}\nd['v'].add_(net(z))", id="by an item of a dictionary"),
        pytest.param("d = [x[:, :4]]\nd[0] += net(z)", id="by an item of a list"),
        pytest.param("d = []\nd.append(x[:, :4])\nd[0].add_(net(z))", id="by what a list took up"),
        pytest.param("d = {}\nd['v'] = x[:, :4]\nd['v'].add_(net(z))", id="by what a dictionary took up"),
        pytest.param("d = [x[:, :4]]\nv = d.pop()\nv.add_(net(z))", id="by what was taken from a list"),
        pytest.param("y.v = x[:, :4]\ny.v.add_(net(z))", id="by an attribute"),
        pytest.param("v, w = x[:, :4], x[:, 4:]\nv.add_(net(z))", id="by one of two names"),
        pytest.param("v, w = x.chunk(2, 1)\nv.add_(net(z))", id="of chunks"),
        pytest.param("v, w = torch.split(x, 4, 1)\nv += net(z)", id="of what is split"),
        pytest.param("v, *w = x.unbind(1)\nv.add_(net(z)[:, 0])", id="of rows"),
        pytest.param("v = x.select(1, 0)\nv.add_(net(z)[:, 0])", id="of one row"),
        pytest.param("v = torch.narrow(x, 1, 0, 4)\nv.add_(net(z))", id="of a narrow one"),
        pytest.param("v = x.transpose(0, 1)\nv[:4].add_(net(z).t())", id="of a transposed one"),
        pytest.param("v = x.T\nv[:4] += net(z).T", id="of an attribute that transposes"),
        pytest.param("v = x.as_strided((16, 4), (8, 1))\nv.add_(net(z))", id="of one with other strides"),
        pytest.param("v = nn.Flatten()(x)\nv[:, :4].add_(net(z))", id="of what a layer hands on"),
        pytest.param("v = nn.Sequential(nn.Flatten())(x)\nv[:, :4] += net(z)", id="of what layers in sequence hand on"),
        pytest.param("for v in x:\n    v[:4].add_(net(z[0]))", id="of what is iterated over"),
        pytest.param("for i, v in enumerate(x):\n    v[:4] += net(z[i])", id="of what is counted"),
        pytest.param("rows = [row[:4] for row in x]\nrows[0].add_(net(z)[0])", id="of a list that is made"),
        pytest.param("v, n = part(x)\nv.add_(net(z))", id="of what a function returns"),
        pytest.param("for v in parts(x):\n    v.add_(net(z))", id="of what a function yields"),
        pytest.param("v = Pair(x).first()\nv.add_(net(z))", id="of what a method returns"),
        pytest.param("v = View()(x)\nv.add_(net(z))", id="of what a model of the project returns"),
        pytest.param("fill(x, z)", id="in a function"),
        pytest.param("h = net(z)\nexec('x[:, :4].add_(h)')", id="in a text that is run"),
        pytest.param("h = net(z)\nx = eval('torch.cat([h, h], 1)')", id="in a text that is evaluated"),
    ],
)
def test_what_is_written_into_the_memory_of_what_is_trained_on_keeps_its_graph(writes: str) -> None:
    indented = "".join(f"    {line}\n" for line in writes.splitlines())
    code = WRITTEN_INTO.replace("WRITES\n", indented)

    result = run(NoGradEval, code)

    assert result.after == code


@pytest.mark.parametrize(
    "writes",
    [
        pytest.param("v = x[:, :4].clone()\nv.add_(net(z))", id="a copy"),
        pytest.param("v = x[:, :4] * 2\nv += net(z)", id="what is computed of it"),
        pytest.param("v = x[:, :4].detach()\nv += net(z)", id="what has no graph in common with it"),
        pytest.param("v = nn.Sequential(nn.Flatten(), net)(z)\nv += net(z)", id="what layers in sequence compute"),
        pytest.param("v = net(z)\nv += net(z)", id="what a model has computed"),
        pytest.param("d = []\nd.append((x, net(z)))", id="a list that holds it"),
        pytest.param("d = {'x': [x], 'out': []}\nd['out'].append(net(z))", id="a list beside that which holds it"),
        pytest.param("v = torch.zeros(16, 4)\nw = v[:4]\nw.add_(net(z[:4]))", id="another tensor"),
    ],
)
def test_what_is_written_elsewhere_needs_no_graph(writes: str) -> None:
    indented = "".join(f"    {line}\n" for line in writes.splitlines())
    result = run(NoGradEval, WRITTEN_INTO.replace("WRITES\n", indented))

    assert "    with torch.no_grad():\n" in result.after


def test_layers_that_one_call_puts_into_each_other_are_followed() -> None:
    made = "net, student = nn.Linear(4, 4), nn.Linear(8, 3)\n"
    code = WRITTEN_INTO.replace(made, f"{made}for _ in range(3):\n    net = nn.Sequential(net, nn.Flatten())\n")
    code = code.replace("WRITES\n", "    d = []\n    d.append(net(z))\n")
    assert code.count("nn.Flatten()") == 1

    assert "    with torch.no_grad():\n        d.append(net(z))\n" in run(NoGradEval, code).after


def test_the_caller_sees_what_is_written_into_a_view_of_a_parameter() -> None:
    code = """\
        def evaluate(x):
            model.eval()
            view = x[:, :4]
            view.add_(model(x)[:, :1])


        for x, y in loader:
            evaluate(x)
        """

    check_leaves(NoGradEval, script(code), "it keeps a tensor for later (line 13)")


def test_a_transformer_that_returns_zeros_for_padding_without_gradients() -> None:
    code = """\
import torch
from torch import nn

net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


def evaluate(batches, padding):
    net.eval()
    total = 0.0
    for x in batches:
        total += net(x, src_key_padding_mask=padding).mean(1).sum().item()
    return total


print(evaluate(torch.randn(3, 2, 6, 8), torch.arange(6)[None] >= torch.tensor([[6], [3]])))
"""
    because = "without gradients torch.nn.TransformerEncoder returns zeros for padding (line {line}): {remedy}"
    check_leaves(NoGradEval, code, because.format(line=11, remedy="make it with enable_nested_tensor=False"))

    code = code.replace("True), 2)", "True), 2, enable_nested_tensor=False)")
    check_rewrites(NoGradEval, code, code.replace("def evaluate", "@torch.no_grad()\ndef evaluate"))
