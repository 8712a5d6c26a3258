import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(13)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = F.softmax(scores, dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.attn = None
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


class Tagger(nn.Module):
    def __init__(self, vocab=200, d_model=64, tags=12):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model, padding_idx=0)
        self.attn = MultiHeadedAttention(4, d_model)
        self.norm = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 128), nn.ReLU(), nn.Linear(128, d_model))
        self.out = nn.Linear(d_model, tags)

    def forward(self, tokens):
        mask = (tokens != 0).unsqueeze(-2)
        x = self.embed(tokens)
        x = self.norm(x + self.attn(x, x, x, mask))
        return self.out(x + self.ff(x))


def batches(n, size=16, length=20):
    for _ in range(n):
        tokens = torch.randint(1, 200, (size, length))
        for row, end in enumerate(torch.randint(8, length + 1, (size,)).tolist()):
            tokens[row, end:] = 0
        yield tokens, tokens % 12


model = Tagger().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
criterion = nn.CrossEntropyLoss(ignore_index=0)
model.train()
total = 0.0
for tokens, tags in batches(8):
    tokens = tokens.to(device)
    tags = tags.to(device)
    optimizer.zero_grad()
    out = model(tokens)
    loss = criterion(out.view(-1, out.size(-1)), tags.view(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    total += loss.item()
print(total / 8)
