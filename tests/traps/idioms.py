"""The constructors, methods and layers that scripts of 2017 to 2020 use, each as an expression of ``x``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operand = Literal["matrix", "images", "sequence", "volume", "signal"]
SHAPES: dict[Operand, tuple[int, ...]] = {
    "matrix": (4, 6),
    "images": (2, 4, 8, 8),
    "sequence": (5, 3, 8),
    "volume": (2, 4, 4, 8, 8),
    "signal": (2, 4, 16),
}
"""Of the tensor ``x``, of 32-bit floating-point numbers."""


@dataclass(frozen=True, slots=True)
class Idiom:
    """Something that scripts write."""

    name: str
    """Unique; a qualified name for layers and functions."""
    source: str
    """An expression of ``x``; ``layer`` is what ``made`` evaluates to."""
    operand: Operand = "matrix"
    made: str = ""
    """What is made before, once; empty: nothing."""
    draws: bool = False
    """Whether it draws random numbers: only shapes and types are compared then."""


def _plain(operand: Operand, text: str, *, draws: bool = False) -> list[Idiom]:
    sources = (line.strip() for line in text.strip().splitlines())
    return [Idiom(source, source, operand, draws=draws) for source in sources]


def _layers(operand: Operand, text: str, *, draws: bool = False) -> list[Idiom]:
    found = []
    for line in text.strip().splitlines():
        made = line.strip()
        name = f"torch.nn.{made.partition('(')[0]}"
        found.append(Idiom(name, "layer(x)", operand, f"torch.nn.{made}", draws=draws))
    return found


CONSTRUCTORS = [
    *_plain(
        "matrix",
        """
        torch.Tensor(x.size()).fill_(2) * x
        torch.FloatTensor(x.size()).fill_(2) * x
        torch.FloatTensor(x.shape).fill_(2) * x
        torch.FloatTensor(*x.size()).fill_(2) * x
        torch.FloatTensor(4, 6).fill_(2) * x
        torch.FloatTensor([2.0]) * x
        torch.Tensor(4, 6).fill_(2) * x
        torch.Tensor([2.0]) * x
        torch.Tensor([2]).expand_as(x) * x
        torch.DoubleTensor(x.size()).fill_(2).float() * x
        torch.LongTensor(x.size()).fill_(2) * x
        torch.ByteTensor(x.size()).fill_(1) * x
        torch.LongTensor([0, 1]).float().sum() * x
        torch.zeros(x.size()) + x
        torch.zeros(x.size(0), x.size(1)) + x
        torch.ones_like(x) * x
        torch.full(x.size(), 2.0) * x
        torch.full((4, 6), 2) * x
        torch.range(1, 6) * x
        torch.arange(1, 7) * x
        torch.linspace(0, 1, steps=6) * x
        torch.eye(4, 6) * x
        torch.from_numpy(numpy.ones((4, 6), dtype=numpy.float32)) * x
        torch.as_tensor(numpy.ones((4, 6), dtype=numpy.float32)) * x
        torch.tensor(2.0) * x
        torch.tensor([1.0] * 6) * x
        torch.tensor(x.detach()) * x
        x.new(x.size()).fill_(2) * x
        x.new(4, 6).fill_(2) * x
        x.new([2.0]) * x
        x.data.new(x.size()).fill_(2) * x
        x.new_zeros(x.size()) + x
        x.new_tensor([2.0]) * x
        x.new_full((4, 6), 2) * x
        torch.autograd.Variable(torch.zeros(4, 6)) + x
        torch.autograd.Variable(x.data, requires_grad=False) * x
        torch.autograd.Variable(torch.FloatTensor(x.size()).fill_(2)) * x
        torch.empty(x.size()).copy_(x.detach()) * x
        torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (4, 4)).to_dense() @ x
        torch.sparse.mm(torch.eye(4).to_sparse(), x)
        torch.sparse.FloatTensor(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), torch.Size([4, 4])).to_dense() @ x
        """,
    ),
    *_plain(
        "matrix",
        """
        torch.FloatTensor(x.size()).normal_() * x
        torch.Tensor(x.size()).uniform_() * x
        torch.randn(x.size()) * x
        torch.randn_like(x) * x
        torch.rand(4, 6) * x
        torch.normal(x, torch.ones_like(x))
        torch.normal(mean=0.0, std=torch.ones(4, 6)) * x
        torch.bernoulli(torch.sigmoid(x).detach()) * x
        torch.multinomial(torch.softmax(x, 1), 2)
        torch.randperm(4).float().sum() * x
        x.new(x.size()).normal_() * x
        x.data.new(x.size()).normal_() * x
        x.clone().normal_()
        x + x.data.clone().uniform_(0, 1)
        x + torch.zeros(4, 6).exponential_()
        torch.nn.functional.gumbel_softmax(x, hard=True)
        torch.distributions.Normal(x, 1.0).rsample()
        torch.distributions.Categorical(logits=x).sample()
        """,
        draws=True,
    ),
]
METHODS = _plain(
    "matrix",
    """
    x.type(torch.FloatTensor) * 2
    x.type(torch.DoubleTensor).float()
    x.type('torch.FloatTensor')
    x.type(torch.LongTensor)
    x.type_as(torch.zeros(1)) * 2
    x.float() * 2
    x.double().float()
    x.half().float()
    x.long()
    x.byte()
    x if isinstance(x, torch.FloatTensor) else x * 2
    x if isinstance(x.data, torch.cuda.FloatTensor) else x * 2
    x if x.type() == 'torch.FloatTensor' else x * 2
    x * 2 if x.is_cuda else x * 3
    x * 2 if torch.is_tensor(x) else x
    x * int(x.size(0))
    x * x.dim()
    x.data.mul(2)
    x.clone().data.mul_(2)
    x.detach() * x
    x.clone().resize_(6, 4)
    x.clone().resize_as_(torch.zeros(6, 4))
    x.clone().set_(torch.zeros(4, 6))
    x.view(-1)
    x.contiguous().view(2, 12)
    x.view_as(torch.zeros(6, 4))
    x.expand(2, 4, 6)
    x.expand_as(torch.zeros(2, 4, 6))
    x.repeat(2, 1)
    x.t()
    x.transpose(0, 1).contiguous()
    x.permute(1, 0)
    x.squeeze()
    x.unsqueeze(0)
    x.narrow(0, 0, 2)
    x.select(0, 1)
    x.index_select(0, torch.LongTensor([0, 1]))
    x.masked_select(x > 0)
    x.masked_fill(x > 0, -1e9)
    x.masked_fill(x > 0, float('-inf')).softmax(1)
    x.clone().masked_fill_((x > 0), 0)
    x.clone().masked_scatter_(x > 0, torch.zeros(4, 6))
    x.gather(1, torch.zeros(4, 1, dtype=torch.long))
    torch.zeros(4, 6).scatter_(1, torch.zeros(4, 1, dtype=torch.long), 1) * x
    torch.zeros(4, 6).scatter_add_(1, torch.zeros(4, 6, dtype=torch.long), x)
    torch.zeros(4, 6).index_add_(0, torch.tensor([0, 1, 2, 3]), x)
    torch.zeros(4, 6).index_copy_(0, torch.tensor([0, 1, 2, 3]), x)
    torch.zeros(4, 6).index_fill_(0, torch.tensor([0]), 1) * x
    torch.zeros(4, 6).copy_(x)
    x[x > 0]
    x[torch.tensor([0, 1])]
    x[:, None]
    x[..., 0]
    x[x.argmax(0)[0]]
    x.nonzero()
    x.clamp(min=0)
    x.clamp(-1, 1)
    x.norm()
    x.norm(2, 1)
    x.norm(p=2, dim=1, keepdim=True)
    x.renorm(2, 0, 1)
    x.pow(2).sum(1).sqrt()
    x.abs().log1p()
    x.exp().log()
    x.max()
    x.max(1)[0]
    x.max(1)[1]
    x.topk(2)[0]
    x.sort(1)[0]
    x.cumsum(1)
    x.cumprod(1)
    x.prod(1)
    x.mean(1).std()
    x.var(1)
    x.median(1)[0]
    x.kthvalue(2)[0]
    x.histc(4)
    x.unfold(1, 2, 1)
    x.chunk(2, 1)[0]
    x.split(2, 1)[0]
    x.unbind(0)[0]
    x.tril()
    x.diag(0)
    x.trace()
    x.add(1, x)
    x.addmm(x, torch.ones(6, 6))
    torch.addmm(torch.ones(4, 4), x, x.t())
    torch.mm(x, x.t())
    x @ x.t()
    x.mv(torch.ones(6))
    x[0].ger(torch.ones(2))
    torch.bmm(x.unsqueeze(0), x.t().unsqueeze(0))
    torch.matmul(x, x.t())
    torch.einsum('ij,kj->ik', x, x)
    torch.dist(x, x * 2)
    torch.cdist(x, x * 2)
    torch.inverse(x[:, :4] + 10 * torch.eye(4))
    torch.svd(x)[1]
    torch.qr(x)[1]
    torch.cholesky(x @ x.t() + 10 * torch.eye(4))
    torch.det(x[:, :4])
    torch.logdet(x[:, :4] @ x[:, :4].t() + torch.eye(4))
    torch.symeig(x @ x.t())[0]
    torch.lstsq(torch.ones(4, 1), x[:, :4])[0]
    torch.gels(torch.ones(4, 1), x[:, :4])[0]
    torch.stft(x.view(-1), 8, return_complex=True).abs()
    torch.stft(x.view(-1), 8)
    torch.rfft(x, 1)
    torch.fft.rfft(x).abs()
    torch.cross(x[:, :3], x[:, 3:])
    torch.cosine_similarity(x, torch.cos(x))
    torch.where(x > 0, x, torch.zeros_like(x))
    torch.where(x > 0, x, torch.tensor(0.0))
    torch.cat([x, x], 1)
    torch.stack([x, x])
    torch.split(x, 2)[0]
    torch.ge(x, 0).float() * x
    torch.meshgrid(x[0], x[1])[0]
    torch.lerp(x, x * 2, 0.5)
    torch.erfinv(torch.tanh(x))
    torch.sigmoid(x)
    torch.tanh(x)
    torch.logsumexp(x, 1)
    x * float(x.size(0)) if float(x.detach().sum()) > -1e9 else x
    x * x.detach().sum().item()
    x * numpy.float32(2)
    x * torch.from_numpy(x.detach().cpu().numpy())
    torch.tensor(x.detach().cpu().numpy().copy()) * x
    x.requires_grad_() * 2
    torch.autograd.grad((x ** 2).sum(), x, create_graph=True)[0]
    torch.autograd.grad((x ** 2).sum(), x)[0]
    torch.utils.checkpoint.checkpoint(torch.sin, x)
    """,
)
FUNCTIONS = [
    *_plain(
        "matrix",
        """
        functional.softmax(x)
        functional.softmax(x, dim=1)
        functional.log_softmax(x, 1)
        functional.sigmoid(x)
        functional.tanh(x)
        functional.relu(x, inplace=False)
        functional.leaky_relu(x, 0.2)
        functional.elu(x)
        functional.prelu(x, torch.ones(1))
        functional.normalize(x)
        functional.linear(x, torch.ones(3, 6))
        functional.bilinear(x, x, torch.ones(2, 6, 6))
        functional.pairwise_distance(x, x * 2)
        functional.pdist(x)
        functional.cosine_similarity(x, torch.cos(x))
        functional.layer_norm(x, (6,))
        functional.cross_entropy(x, torch.zeros(4, dtype=torch.long))
        functional.cross_entropy(x, torch.zeros(4, dtype=torch.long), size_average=False)
        functional.nll_loss(functional.log_softmax(x, 1), torch.zeros(4, dtype=torch.long))
        functional.mse_loss(x, torch.zeros(4, 6))
        functional.mse_loss(x, torch.zeros(4, 6), size_average=False)
        functional.l1_loss(x, torch.zeros(4, 6), reduction='sum')
        functional.smooth_l1_loss(x, torch.zeros(4, 6))
        functional.kl_div(functional.log_softmax(x, 1), torch.ones(4, 6) / 6, reduction='batchmean')
        functional.binary_cross_entropy(torch.sigmoid(x), torch.zeros(4, 6))
        functional.binary_cross_entropy_with_logits(x, torch.zeros(4, 6))
        functional.soft_margin_loss(x, torch.ones(4, 6))
        functional.multilabel_soft_margin_loss(x, torch.ones(4, 6))
        functional.multi_margin_loss(x, torch.zeros(4, dtype=torch.long))
        functional.margin_ranking_loss(x, x * 2, torch.ones(4, 6), margin=0.1)
        functional.hinge_embedding_loss(x, torch.ones(4, 6))
        functional.cosine_embedding_loss(x, x * 2, torch.ones(4))
        functional.triplet_margin_loss(x, x * 2, x * 3)
        functional.poisson_nll_loss(x, torch.ones(4, 6))
        functional.one_hot(x.argmax(1), 6)
        functional.embedding(torch.zeros(4, dtype=torch.long), x)
        functional.pad(x, (1, 1))
        functional.glu(x)
        functional.gelu(x)
        functional.softplus(x)
        functional.hardtanh(x)
        """,
    ),
    *_plain("matrix", "functional.dropout(x)\nfunctional.dropout(x, 0.5, True)", draws=True),
    *_plain(
        "images",
        """
        functional.max_pool2d(x, 2)
        functional.max_pool2d(x, x.size(2))
        functional.max_pool2d(x, 2, return_indices=True)[0]
        functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2)
        functional.avg_pool2d(x, x.size()[2:])
        functional.adaptive_avg_pool2d(x, 1)
        functional.adaptive_max_pool2d(x, (2, 2))
        functional.lp_pool2d(x.abs(), 2, 2)
        functional.interpolate(x, scale_factor=2)
        functional.interpolate(x, size=(4, 4), mode='bilinear', align_corners=True)
        functional.interpolate(x, scale_factor=2, mode='bicubic', align_corners=False)
        functional.upsample(x, scale_factor=2)
        functional.upsample(x, size=(16, 16), mode='bilinear')
        functional.upsample_bilinear(x, scale_factor=2)
        functional.upsample_nearest(x, scale_factor=2)
        functional.grid_sample(x, torch.zeros(2, 4, 4, 2))
        functional.affine_grid(torch.eye(2, 3).repeat(2, 1, 1), x.size())
        functional.pixel_shuffle(x, 2)
        functional.unfold(x, 2)
        functional.fold(functional.unfold(x, 2), (8, 8), 2)
        functional.pad(x, (1, 1, 1, 1), mode='reflect')
        functional.pad(x, (1, 1, 1, 1), mode='replicate')
        functional.conv2d(x, torch.ones(3, 4, 3, 3))
        functional.conv_transpose2d(x, torch.ones(4, 3, 3, 3))
        functional.instance_norm(x)
        functional.batch_norm(x, None, None, training=True)
        functional.local_response_norm(x, 2)
        x.mean(3).mean(2)
        x.view(x.size(0), -1)
        x.view(x.shape[0], x.shape[1], -1).mean(2)
        torch.rfft(x, 2, onesided=False)
        """,
    ),
    *_plain("images", "functional.dropout2d(x, 0.5, True)\nfunctional.alpha_dropout(x, 0.5, True)", draws=True),
    *_plain(
        "sequence",
        """
        functional.max_pool1d(x, x.size(2))
        functional.ctc_loss(functional.log_softmax(x, 2), torch.ones(3, 2).long(), [5] * 3, [2] * 3)
        torch.nn.utils.rnn.pack_padded_sequence(x, [5, 4, 3]).data
        torch.nn.utils.rnn.pad_sequence([x[0], x[1]])
        x[torch.arange(5), torch.zeros(5, dtype=torch.long)]
        torch.flip(x, [0])
        torch.bmm(x, x.transpose(1, 2))
        torch.baddbmm(torch.zeros(5, 3, 3), x, x.transpose(1, 2))
        """,
    ),
]
LAYERS = [
    *_layers(
        "matrix",
        """
        Linear(6, 3)
        BatchNorm1d(6)
        LayerNorm(6)
        ReLU()
        ReLU6()
        LeakyReLU(0.2)
        PReLU()
        ELU()
        SELU()
        CELU()
        GELU()
        GLU()
        Sigmoid()
        Tanh()
        Softplus()
        Softsign()
        Softmax()
        Softmin()
        LogSoftmax()
        LogSigmoid()
        Hardtanh()
        Hardshrink()
        Softshrink()
        Tanhshrink()
        Threshold(0.1, 0)
        Identity()
        GRUCell(6, 5)
        RNNCell(6, 5)
        """,
    ),
    *_layers("matrix", "Dropout()\nAlphaDropout()\nRReLU()", draws=True),
    *_layers(
        "images",
        """
        Conv2d(4, 3, 3)
        Conv2d(4, 4, 3, groups=4)
        ConvTranspose2d(4, 3, 3)
        BatchNorm2d(4)
        InstanceNorm2d(4)
        GroupNorm(2, 4)
        LocalResponseNorm(2)
        MaxPool2d(2)
        AvgPool2d(2)
        AdaptiveAvgPool2d(1)
        AdaptiveMaxPool2d(1)
        LPPool2d(2, 2)
        Softmax2d()
        Upsample(scale_factor=2)
        Upsample(scale_factor=2, mode='bilinear', align_corners=True)
        UpsamplingNearest2d(scale_factor=2)
        UpsamplingBilinear2d(scale_factor=2)
        PixelShuffle(2)
        ReflectionPad2d(1)
        ReplicationPad2d(1)
        ZeroPad2d(1)
        ConstantPad2d(1, 0.5)
        Unfold(2)
        """,
    ),
    *_layers("images", "Dropout2d()\nFractionalMaxPool2d(2, output_size=4)", draws=True),
    *_layers(
        "volume",
        """
        Conv3d(4, 3, 3)
        ConvTranspose3d(4, 3, 3)
        BatchNorm3d(4)
        InstanceNorm3d(4)
        MaxPool3d(2)
        AvgPool3d(2)
        AdaptiveAvgPool3d(1)
        AdaptiveMaxPool3d(1)
        Upsample(scale_factor=2, mode='trilinear')
        ReplicationPad3d(1)
        """,
    ),
    *_layers(
        "signal",
        """
        Conv1d(4, 3, 3)
        ConvTranspose1d(4, 3, 3)
        MaxPool1d(2)
        AvgPool1d(2)
        AdaptiveAvgPool1d(1)
        AdaptiveMaxPool1d(1)
        InstanceNorm1d(4)
        ReflectionPad1d(1)
        ReplicationPad1d(1)
        LPPool1d(2, 2)
        """,
    ),
    *(
        Idiom(f"torch.nn.{name}", f"layer(x){index}", "sequence", f"torch.nn.{made}")
        for name, made, index in (
            ("RNN", "RNN(8, 5)", "[0]"),
            ("LSTM", "LSTM(8, 5)", "[0]"),
            ("GRU", "GRU(8, 5)", "[0]"),
            ("LSTM of two directions", "LSTM(8, 5, bidirectional=True, num_layers=2)", "[0]"),
            ("TransformerEncoderLayer", "TransformerEncoderLayer(8, 2, 16, dropout=0.0)", ""),
            (
                "TransformerEncoder",
                "TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2)",
                "",
            ),
        )
    ),
    Idiom(
        "torch.nn.LSTM of packed sequences",
        "torch.nn.utils.rnn.pad_packed_sequence(layer(torch.nn.utils.rnn.pack_padded_sequence(x, [5, 4, 3]))[0])[0]",
        "sequence",
        "torch.nn.LSTM(8, 5)",
    ),
    Idiom("torch.nn.MultiheadAttention", "layer(x, x, x)[0]", "sequence", "torch.nn.MultiheadAttention(8, 2)"),
    Idiom("torch.nn.Transformer", "layer(x, x)", "sequence", "torch.nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)"),
    Idiom("torch.nn.Embedding", "layer(x.argmax(1))", "matrix", "torch.nn.Embedding(6, 3)"),
    Idiom("torch.nn.EmbeddingBag", "layer(x.argmax(1).view(2, 2))", "matrix", "torch.nn.EmbeddingBag(6, 3)"),
    Idiom(
        "torch.nn.MaxUnpool1d",
        "layer(*functional.max_pool1d(x, 2, return_indices=True))",
        "signal",
        "torch.nn.MaxUnpool1d(2)",
    ),
    Idiom(
        "torch.nn.MaxUnpool2d",
        "layer(*functional.max_pool2d(x, 2, return_indices=True))",
        "images",
        "torch.nn.MaxUnpool2d(2)",
    ),
    Idiom(
        "torch.nn.MaxUnpool3d",
        "layer(*functional.max_pool3d(x, 2, return_indices=True))",
        "volume",
        "torch.nn.MaxUnpool3d(2)",
    ),
    Idiom("torch.nn.Bilinear", "layer(x, x)", "matrix", "torch.nn.Bilinear(6, 6, 2)"),
    Idiom("torch.nn.LSTMCell", "layer(x)[0]", "matrix", "torch.nn.LSTMCell(6, 5)"),
    Idiom("torch.nn.PairwiseDistance", "layer(x, x * 2)", "matrix", "torch.nn.PairwiseDistance()"),
    Idiom("torch.nn.CosineSimilarity", "layer(x, torch.cos(x))", "matrix", "torch.nn.CosineSimilarity()"),
    Idiom(
        "torch.nn.NLLLoss2d",
        "layer(functional.log_softmax(x, 1), torch.zeros(2, 8, 8).long())",
        "images",
        "torch.nn.NLLLoss2d()",
    ),
    Idiom(
        "torch.nn.CTCLoss",
        "layer(functional.log_softmax(x, 2), torch.ones(3, 2).long(), (5, 5, 5), (2, 2, 2))",
        "sequence",
        "torch.nn.CTCLoss()",
    ),
    Idiom("torch.nn.BCELoss", "layer(torch.sigmoid(x), torch.zeros(4, 6))", "matrix", "torch.nn.BCELoss()"),
    Idiom("torch.nn.BCEWithLogitsLoss", "layer(x, torch.zeros(4, 6))", "matrix", "torch.nn.BCEWithLogitsLoss()"),
    Idiom("torch.nn.DataParallel", "layer(x)", "matrix", "torch.nn.DataParallel(torch.nn.Linear(6, 3))"),
    Idiom("torch.nn.utils.weight_norm", "layer(x)", "matrix", "torch.nn.utils.weight_norm(torch.nn.Linear(6, 3))"),
    Idiom("torch.nn.utils.spectral_norm", "layer(x)", "matrix", "torch.nn.utils.spectral_norm(torch.nn.Linear(6, 3))"),
]
IDIOMS = {idiom.name: idiom for idiom in (*CONSTRUCTORS, *METHODS, *FUNCTIONS)} | {
    f"{idiom.name} {idiom.made.removeprefix('torch.nn.')}": idiom for idiom in LAYERS
}
