"""How large torchvision's networks are."""

from __future__ import annotations

from typing import NamedTuple


class Network(NamedTuple):
    """A network as it is published."""

    parameters: float
    """In millions."""
    products: float
    """Multiplications with addition for one image, in billions."""
    side: int
    """Of that image, in pixels."""


# Name, millions of parameters, billions of products, and the side of an image where it is not 224: torchvision 0.26,
# ``num_params``, ``_ops`` and ``crop_size`` of the first weights of each model.
_TABLE = """
alexnet 61.1 0.714
convnext_base 88.59 15.355
convnext_large 197.77 34.361
convnext_small 50.22 8.684
convnext_tiny 28.59 4.456
densenet121 7.98 2.834
densenet161 28.68 7.728
densenet169 14.15 3.36
densenet201 20.01 4.291
efficientnet_b0 5.29 0.386
efficientnet_b1 7.79 0.687 240
efficientnet_b2 9.11 1.088 288
efficientnet_b3 12.23 1.827 300
efficientnet_b4 19.34 4.394 380
efficientnet_b5 30.39 10.266 456
efficientnet_b6 43.04 19.068 528
efficientnet_b7 66.35 37.746 600
efficientnet_v2_l 118.52 56.08 480
efficientnet_v2_m 54.14 24.582 480
efficientnet_v2_s 21.46 8.366 384
googlenet 6.62 1.498
inception_v3 27.16 5.713 299
mnasnet0_5 2.22 0.104
mnasnet0_75 3.17 0.215
mnasnet1_0 4.38 0.314
mnasnet1_3 6.28 0.526
mobilenet_v2 3.5 0.301
mobilenet_v3_large 5.48 0.217
mobilenet_v3_small 2.54 0.057
resnet101 44.55 7.801
resnet152 60.19 11.514
resnet18 11.69 1.814
resnet34 21.8 3.664
resnet50 25.56 4.089
resnext101_32x8d 88.79 16.414
resnext101_64x4d 83.46 15.46
resnext50_32x4d 25.03 4.23
shufflenet_v2_x0_5 1.37 0.04
shufflenet_v2_x1_0 2.28 0.145
shufflenet_v2_x1_5 3.5 0.296
shufflenet_v2_x2_0 7.39 0.583
squeezenet1_0 1.25 0.819
squeezenet1_1 1.24 0.349
swin_b 87.77 15.431
swin_s 49.61 8.741
swin_t 28.29 4.491
vgg11 132.86 7.609
vgg11_bn 132.87 7.609
vgg13 133.05 11.308
vgg13_bn 133.05 11.308
vgg16 138.36 15.47
vgg16_bn 138.37 15.47
vgg19 143.67 19.632
vgg19_bn 143.68 19.632
vit_b_16 86.57 17.564
vit_b_32 88.22 4.409
vit_l_16 304.33 61.555
vit_l_32 306.54 15.378
wide_resnet101_2 126.89 22.753
wide_resnet50_2 68.88 11.398
"""


def network(name: str) -> Network | None:
    """The network that the function of that qualified name makes: ``torchvision.models.resnet18``."""
    return NETWORKS.get(name.rpartition(".")[2]) if name.startswith("torchvision.models.") else None


def _read(table: str) -> dict[str, Network]:
    found = {}
    for line in table.strip().splitlines():
        name, parameters, products, *side = line.split()
        found[name] = Network(float(parameters), float(products), int(side[0]) if side else 224)
    return found


NETWORKS = _read(_TABLE)
"""By their names in ``torchvision.models``."""
