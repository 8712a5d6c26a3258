import torch
import torch.nn as nn
from torch.autograd import Variable
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)


class Encoder(nn.Module):
    def __init__(self, z_dim):
        super(Encoder, self).__init__()
        self.conv1 = nn.Conv2d(3, 16, 4, 2, 1)
        self.conv2 = nn.Conv2d(16, 64, 4, 2, 1)
        self.bn = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.mu = nn.Linear(64 * 16, z_dim)
        self.log_var = nn.Linear(64 * 16, z_dim)

    def forward(self, x):
        out = self.relu(self.conv1(x))
        out = self.relu(self.bn(self.conv2(out)))
        out = out.view(out.size(0), -1)
        return self.mu(out), self.log_var(out)


class VAE(nn.Module):
    def __init__(self, z_dim=64):
        super(VAE, self).__init__()
        self.encoder = Encoder(z_dim)
        self.fc = nn.Linear(z_dim, 64 * 16)
        self.deconv1 = nn.ConvTranspose2d(64, 16, 4, 2, 1)
        self.deconv2 = nn.ConvTranspose2d(16, 3, 4, 2, 1)

    def sample(self, mu, log_var):
        if self.training:
            std = log_var.mul(0.5).exp_()
            eps = Variable(std.data.new(std.size()).normal_())
            return eps.mul(std).add_(mu)
        return mu

    def forward(self, x):
        mu, log_var = self.encoder(x)
        z = self.sample(mu, log_var)
        out = self.fc(z).view(z.size(0), 64, 4, 4)
        out = torch.relu(self.deconv1(out))
        return torch.tanh(self.deconv2(out)), mu, log_var


if __name__ == '__main__':
    loader = DataLoader(TensorDataset(torch.rand(96, 3, 16, 16) * 2 - 1), batch_size=16, shuffle=True)
    vae = VAE().cuda()
    mse = nn.MSELoss().cuda()
    optimizer = torch.optim.RMSprop(vae.parameters(), lr=1e-4)
    for epoch in range(2):
        for i, (x,) in enumerate(loader):
            x = Variable(x.cuda())
            recon, mu, log_var = vae(x)
            rec_loss = mse(recon, x)
            kl = -0.5 * torch.mean(1 + log_var - mu ** 2 - torch.exp(log_var))
            loss = rec_loss + 0.1 * kl
            vae.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 2 == 0:
                print('[%d/%d] loss %.4f' % (epoch, i, loss.data))
        vae.eval()
        test, _, _ = vae(x)
        print('reconstruction', float((test.data - x.data).abs().mean()))
        vae.train()
