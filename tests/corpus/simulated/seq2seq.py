import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim

random.seed(29)
torch.manual_seed(29)
use_cuda = torch.cuda.is_available()
SOS, EOS, VOCAB, HIDDEN = 0, 1, 60, 64


class EncoderRNN(nn.Module):
    def __init__(self):
        super(EncoderRNN, self).__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN)

    def forward(self, input, hidden):
        output, hidden = self.gru(self.embedding(input).view(1, 1, -1), hidden)
        return output, hidden

    def initHidden(self):
        result = torch.zeros(1, 1, HIDDEN)
        return result.cuda() if use_cuda else result


class DecoderRNN(nn.Module):
    def __init__(self):
        super(DecoderRNN, self).__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.attn = nn.Linear(HIDDEN * 2, HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, VOCAB)

    def forward(self, input, hidden, encoder_outputs):
        embedded = self.embedding(input).view(1, -1)
        weights = F.softmax(torch.mm(hidden[0], encoder_outputs.t()), dim=1)
        context = torch.mm(weights, encoder_outputs)
        x = F.relu(self.attn(torch.cat((embedded, context), 1))).unsqueeze(0)
        output, hidden = self.gru(x, hidden)
        return F.log_softmax(self.out(output[0]), dim=1), hidden


def train(source, target, encoder, decoder, encoder_optimizer, decoder_optimizer, criterion):
    hidden = encoder.initHidden()
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    encoder_outputs = []
    for ei in range(source.size(0)):
        output, hidden = encoder(source[ei], hidden)
        encoder_outputs.append(output[0, 0])
    encoder_outputs = torch.stack(encoder_outputs)
    decoder_input = torch.tensor([[SOS]])
    decoder_input = decoder_input.cuda() if use_cuda else decoder_input
    teacher_forcing = random.random() < 0.5
    loss = 0
    for di in range(target.size(0)):
        output, hidden = decoder(decoder_input, hidden, encoder_outputs)
        loss += criterion(output, target[di].view(1))
        if teacher_forcing:
            decoder_input = target[di]
        else:
            decoder_input = output.data.topk(1)[1].squeeze().detach()
            if decoder_input.item() == EOS:
                break
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    return loss.item() / target.size(0)


encoder, decoder = EncoderRNN(), DecoderRNN()
if use_cuda:
    encoder, decoder = encoder.cuda(), decoder.cuda()
encoder_optimizer = optim.SGD(encoder.parameters(), lr=0.01)
decoder_optimizer = optim.SGD(decoder.parameters(), lr=0.01)
criterion = nn.NLLLoss()
for it in range(8):
    sentence = torch.randint(2, VOCAB, (random.randint(3, 7),))
    other = torch.cat([sentence.flip(0), torch.tensor([EOS])])
    if use_cuda:
        sentence, other = sentence.cuda(), other.cuda()
    print(train(sentence, other, encoder, decoder, encoder_optimizer, decoder_optimizer, criterion))
