from __future__ import annotations

import pytest
from probe import answers, script

SGD = "torch.optim.SGD()"


def case(reason: str, text: str, *expected: str) -> object:
    """One script with one answer."""
    return pytest.param(text, set(expected), id=reason)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case("assignment", "x = 1\nanswer = x", "1"),
        case("chained assignment", "x = y = 1\nanswer = y", "1"),
        case("the last of two", "x = 1\nx = 2\nanswer = x", "2"),
        case("annotated assignment", "x: int = 1\nanswer = x", "1"),
        case("annotation alone binds nothing", "x = 1\nx: int\nanswer = x", "1"),
        case("tuple unpacking", "x, y = 1, 2\nanswer = y", "2"),
        case("swap", "x, y = 1, 2\nx, y = y, x\nanswer = x", "2"),
        case("nested unpacking", "(x, (y, z)) = 1, (2, 3)\nanswer = z", "3"),
        case("starred unpacking, before the star", "x, *y = 1, 2, 3\nanswer = x", "1"),
        case("starred unpacking", "x, *y = 1, 2\nanswer = y[0]", "1", "2"),
        case("unpacking of a list in a variable", "pair = [1, 2]\nx, y = pair\nanswer = x", "1"),
        case("subscript", "x = (1, 2)\nanswer = x[1]", "2"),
        case("negative subscript", "x = (1, 2)\nanswer = x[-1]", "1", "2"),
        case("slice from the start keeps positions", "x = (1, 2, 3)\nanswer = x[:2][0]", "1"),
        case("slice from further on does not", "x = (1, 2)\nanswer = x[1:][0]", "1", "2"),
        case("dictionary", "x = {'a': 1, 'b': 2}\nanswer = x['b']", "2"),
        case("dictionary by an unknown key", "x = {'a': 1, 'b': 2}\nanswer = x[k]", "1", "2"),
        case("item assignment", "x = {}\nx['a'] = 1\nanswer = x['a']", "1"),
        case("dict()", "x = dict(a=1)\nanswer = x['a']", "1"),
        case("dict() of another, and more", "x = dict({'a': 1}, b=2)\nanswer = x['a']", "1"),
        case("dict.get with a default", "x = {'a': 1}\nanswer = x.get('a', 3)", "1", "3"),
        case("update by a dictionary", "x = {'a': 1}\nx.update({'b': 2})\nanswer = x['b']", "2"),
        case("update by keywords", "x = {}\nx.update(b=2)\nanswer = x['b']", "2"),
        case("setdefault", "x = {}\nx.setdefault('b', 2)\nanswer = x['b']", "2"),
        case("dictionary in a dictionary", "x = {'a': 1}\ny = {**x, 'b': 2}\nanswer = y['a']", "1"),
        case("union of dictionaries", "x = {'a': 1} | {'b': 2}\nanswer = x['b']", "2"),
        case("list append", "x = []\nx.append(1)\nanswer = x[0]", "1"),
        case("list extend", "x = []\nx.extend((1, 2))\nanswer = x[0]", "1", "2"),
        case("list +=", "x = [1]\nx += [2]\nanswer = x[5]", "2"),
        case("list + list", "x = [1] + [2]\nanswer = x[0]", "1", "2"),
        case("tuple + tuple: the first", "x = (1, 'a') + (2,)\nanswer = x[0]", "1"),
        case("tuple + tuple: the last", "x = (1, 'a') + (2,)\nanswer = x[2]", "2"),
        case("tuple + tuple, unpacked", "a, b, answer = (1,) + ('a', 2)\nanswer = answer", "2"),
        case("tuple + the start of a tuple", "x = (1, 2, 'a')\nx = (3,) + x[:2]\nanswer = x[0]", "3"),
        case("tuple + the end of a tuple", "x = (1, 2)\nx = (3,) + x[1:]\nanswer = x[0]", "1", "2", "3"),
        case("tuple + what is chosen", "y = (1, 2) if c else (3,)\nx = (4,) + y\nanswer = x[1]", "1", "3"),
        case(
            "tuple + what a library computes", "import torch\nx = (1,) + torch.ones(2).cuda()\nanswer = x[1]", "moved"
        ),
        case("a tuple that is spread + tuple", "a = [3]\nx = (*a, 1) + (2,)\nanswer = x[0]", "1", "2", "3"),
        case("a tuple that grows in a loop", "x = (1,)\nfor i in y:\n    x = (2,) + x\nanswer = x[0]", "1", "2"),
        case("list times", "x = [1] * 3\nanswer = x[2]", "1"),
        case("if and else", "if c:\n    x = 1\nelse:\n    x = 2\nanswer = x", "1", "2"),
        case("if alone", "x = 1\nif c:\n    x = 2\nanswer = x", "1", "2"),
        case(
            "after a return in one way",
            "def f():\n    x = 1\n    if c:\n        x = 2\n        return\n    answer = x\nf()",
            "1",
        ),
        case("after a raise in one way", "x = 1\nif c:\n    x = 2\n    raise E\nanswer = x", "1"),
        case("conditional expression", "answer = 1 if c else 2", "1", "2"),
        case("or", "answer = None or 2", "None", "2"),
        case("and", "answer = None and 2", "None", "2"),
        case("and, and or: not the test, which counts only where it is false", "answer = not c and 1 or 2", "1", "2"),
        case("not", "answer = not 1", "plain"),
        case("minus", "answer = -1", "-1"),
        case("arithmetic", "answer = 1 + 2", "plain"),
        case("comparison", "answer = 1 < 2", "plain"),
        case("walrus in a test", "if (x := 1):\n    pass\nanswer = x", "1"),
        case("walrus in an argument", "print(x := 1)\nanswer = x", "1"),
        case("walrus in a comprehension", "y = [x := i for i in [1]]\nanswer = x", "1"),
        case("walrus in while", "while (x := 1):\n    break\nanswer = x", "1"),
        case("for", "for x in [1, 2]:\n    answer = x", "1", "2"),
        case("for, what the pass before left", "x = 1\nfor i in y:\n    answer = x\n    x = 2", "1", "2"),
        case("after for", "x = 1\nfor i in y:\n    x = 2\nanswer = x", "1", "2"),
        case("after continue", "x = 1\nfor i in y:\n    answer = x\n    x = 2\n    continue", "1", "2"),
        case("for-else after break", "for i in y:\n    x = 1\n    break\nelse:\n    x = 2\nanswer = x", "1", "2"),
        case("while-else", "while c:\n    x = 1\n    break\nelse:\n    x = 2\nanswer = x", "1", "2"),
        case("endless while ends by break", "x = 0\nwhile True:\n    x = 1\n    if c:\n        break\nanswer = x", "1"),
        case("nested loops", "x = 1\nfor i in a:\n    for j in b:\n        answer = x\n        x = 2", "1", "2"),
        case("enumerate", "for i, x in enumerate([1, 2]):\n    answer = x", "1", "2"),
        case("zip", "for x, y in zip([1], [2]):\n    answer = y", "2"),
        case("zip of a star", "pairs = [[1], [2]]\nfor x in zip(*pairs):\n    answer = x[1]", "2"),
        case("zip of a star of unknown length", "for x in zip(*[[1] for i in y]):\n    answer = x[5]", "1"),
        case("items", "for k, x in {'a': 1}.items():\n    answer = x", "1"),
        case("keys", "for k in {'a': 1}:\n    answer = k", "'a'"),
        case("values", "for x in {'a': 1}.values():\n    answer = x", "1"),
        case("iter and next", "answer = next(iter([1]))", "1"),
        case("reversed, sorted, list", "for x in list(reversed(sorted([1]))):\n    answer = x", "1"),
        case(
            "itertools",
            "import itertools\nfor x in itertools.chain([1], itertools.cycle([2])):\n    answer = x",
            "1",
            "2",
        ),
        case("tqdm", "from tqdm import tqdm\nfor x in tqdm([1], total=3):\n    answer = x", "1"),
        case("range yields numbers", "for x in range(3):\n    answer = x", "plain"),
        case("map", "for x in map(lambda y: y, [1]):\n    answer = x", "1"),
        case("filter", "for x in filter(None, [1]):\n    answer = x", "1"),
        case("list comprehension", "x = [i for i in [1, 2] if i]\nanswer = x[0]", "1", "2"),
        case("dict comprehension", "x = {k: 1 for k in ['a', 'b']}\nanswer = x['b']", "1"),
        case("generator expression", "x = (i for i in [1])\nanswer = next(x)", "1"),
        case("nested comprehension", "x = [j for i in [[1]] for j in i]\nanswer = x[0]", "1"),
        case("a comprehension's name is its own", "i = 5\nx = [i for i in [1]]\nanswer = i", "5"),
        case("with as", "import torch\nwith open(p) as f:\n    answer = f", "plain"),
        case("with as of several", "with A() as (a, b), [1] as c:\n    answer = c", "list"),
        case("__enter__", "class A:\n    def __enter__(self):\n        return 1\nwith A() as x:\n    answer = x", "1"),
        case(
            "a generator as context manager",
            "from contextlib import contextmanager\n@contextmanager\ndef f():\n    yield 1\nwith f() as x:\n    answer = x",
            "1",
        ),
        case("nullcontext", "from contextlib import nullcontext\nwith nullcontext([1]) as x:\n    answer = x[0]", "1"),
        case("closing", "import contextlib\nwith contextlib.closing(thing=[1]) as x:\n    answer = x[0]", "1"),
        case(
            "nullcontext of nothing", "import contextlib\nwith contextlib.nullcontext() as x:\n    answer = x", "plain"
        ),
        case("try", "try:\n    x = 1\nexcept E:\n    x = 2\nanswer = x", "1", "2"),
        case("try-else", "try:\n    x = 1\nexcept E:\n    x = 2\nelse:\n    x = 3\nanswer = x", "2", "3"),
        case("finally", "try:\n    x = 1\nfinally:\n    x = 4\nanswer = x", "4"),
        case(
            "a handler may see what was bound", "x = 0\ntry:\n    x = 1\n    f()\nexcept E:\n    answer = x", "0", "1"
        ),
        case("except as", "try:\n    pass\nexcept E as e:\n    answer = e", "plain"),
        case("match", "match 1:\n    case 2:\n        x = 2\n    case y:\n        x = y\nanswer = x", "1", "2"),
        case(
            "a part of what is matched",
            "match z:\n    case [y]:\n        answer = y",
            "unknown: 'y' is a part of what is matched",
        ),
        case("del", "x = 1\ndel x\nanswer = x"),
        case("never reached", "def f():\n    return\n    answer = 1\nf()"),
        case("await", "async def f():\n    return 1\nasync def g():\n    answer = await f()\ng()", "1"),
        case("f-string keeps its start", "answer = f'cuda:{rank}'", "plain"),
        case("a very large int is but a number", f"answer = 0x{'f' * 5000}", "plain"),
        case("the main guard runs", "x = 1\nif __name__ == '__main__':\n    x = 2\nanswer = x", "2"),
    ],
)
def test_inside_one_unit(text: str, expected: set[str]) -> None:
    assert answers(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case("positional argument", "def f(x):\n    answer = x\nf(1)", "1"),
        case("keyword argument", "def f(x):\n    answer = x\nf(x=1)", "1"),
        case("several calls", "def f(x):\n    answer = x\nf(1)\nf(2)", "1", "2"),
        case("default", "def f(x=1):\n    answer = x\nf()", "1"),
        case("default beside an argument", "def f(x=1):\n    answer = x\nf(2)", "1", "2"),
        case("keyword-only default", "def f(*, x=1):\n    answer = x\nf()", "1"),
        case("positional-only", "def f(x, /):\n    answer = x\nf(1)", "1"),
        case("*args", "def f(*xs):\n    answer = xs[1]\nf(1, 2)", "2"),
        case("**kwargs", "def f(**xs):\n    answer = xs['b']\nf(a=1, b=2)", "2"),
        case("**kwargs handed on", "def g(b):\n    answer = b\ndef f(**xs):\n    g(**xs)\nf(b=2)", "2"),
        case("*args handed on", "def g(a, b):\n    answer = b\ndef f(*xs):\n    g(*xs)\nf(1, 2)", "2"),
        case("* of a tuple", "def f(x, y):\n    answer = y\nf(*(1, 2))", "2"),
        case("* of a list of unknown length", "def f(x, y):\n    answer = y\nz = [1]\nz.append(2)\nf(*z)", "1", "2"),
        case("** of a literal", "def f(x):\n    answer = x\nf(**{'x': 1})", "1"),
        case("** of a conditional literal", "def f(x=0):\n    answer = x\nf(**({'x': 1} if c else {}))", "0", "1"),
        case(
            "** of a dictionary that is filled later",
            "def f(x=0):\n    answer = x\nkwargs = {}\nif c:\n    kwargs.update({'x': 1})\nf(**kwargs)",
            "0",
            "1",
        ),
        case(
            "** of what is not known",
            "def f(x):\n    answer = x\nf(**z)",
            "unknown: 'x' may be filled by a ** argument",
        ),
        case("** fills no parameter that is given", "def f(x):\n    answer = x\nf(1, **z)", "1"),
        case("return", "def f():\n    return 1\nanswer = f()", "1"),
        case("several returns", "def f():\n    if c:\n        return 1\n    return 2\nanswer = f()", "1", "2"),
        case("no return", "def f():\n    pass\nanswer = f()", "None"),
        case(
            "of two functions, or none: None cannot be called",
            "def f():\n    return 1\ndef pick(x):\n    if x:\n        return f\nanswer = pick(y)()",
            "1",
        ),
        case(
            "of two lists, or none: None has no items",
            "def pick(x):\n    if x:\n        return [1]\nanswer = pick(y)[0]",
            "1",
        ),
        case("a tuple returned", "def f():\n    return 1, 2\nx, y = f()\nanswer = y", "2"),
        case("a dictionary returned", "def f():\n    return {'a': 1}\nanswer = f()['a']", "1"),
        case("recursion", "def f(x):\n    return f(x) if c else 1\nanswer = f(1)", "1"),
        case("called before it is known", "def g():\n    return f()\ndef f():\n    return 1\nanswer = g()", "1"),
        case("nested function", "def f():\n    x = 1\n    def g():\n        answer = x\n    g()\nf()", "1"),
        case(
            "closure sees later assignments", "def f():\n    def g():\n        answer = x\n    x = 1\n    g()\nf()", "1"
        ),
        case(
            "nonlocal",
            "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    g()\n    answer = x\nf()",
            "1",
            "2",
        ),
        case("global", "x = 1\ndef f():\n    global x\n    x = 2\nf()\nanswer = x", "1", "2"),
        case(
            "global that only a function binds",
            "def f():\n    global x\n    x = 2\nf()\ndef g():\n    answer = x\ng()",
            "2",
        ),
        case("a module's name read in a function", "def f():\n    answer = x\nx = 1\nf()", "1"),
        case("lambda", "f = lambda x: x\nanswer = f(1)", "1"),
        case("lambda with a default", "f = lambda x=1: x\nanswer = f()", "1"),
        case("lambda in a comprehension", "fs = [lambda: x for x in [1]]\nanswer = fs[0]()", "1"),
        case("function in a variable", "def f():\n    return 1\ng = f\nanswer = g()", "1"),
        case("function in a dictionary", "def f():\n    return 1\ng = {'f': f}\nanswer = g['f']()", "1"),
        case("function as an argument", "def f():\n    return 1\ndef g(h):\n    return h()\nanswer = g(f)", "1"),
        case("generator", "def f():\n    yield 1\nfor x in f():\n    answer = x", "1"),
        case(
            "a generator's return is not yielded",
            "def f():\n    yield 1\n    return 2\nfor x in f():\n    answer = x",
            "1",
        ),
        case("yield from", "def f():\n    yield from [1, 2]\nanswer = next(f())", "1", "2"),
        case(
            "yield in a loop",
            "def f(xs):\n    while True:\n        for x in xs:\n            yield x\nanswer = next(f([1]))",
            "1",
        ),
        case("partial", "from functools import partial\ndef f(x, y):\n    answer = x\npartial(f, 1)(2)", "1"),
        case(
            "partial, what is given later",
            "from functools import partial\ndef f(x, y):\n    answer = y\npartial(f, 1)(2)",
            "2",
        ),
        case(
            "partial by keyword", "from functools import partial\ndef f(x, y):\n    answer = y\npartial(f, y=1)(2)", "1"
        ),
        case(
            "partial of itself ends",
            "from functools import partial\ndef f(*x):\n    answer = x\nfor i in y:\n    f = partial(f, 1)\nf()",
            "tuple",
        ),
        case(
            "partial of a library's class",
            "from functools import partial\nimport torch\nf = partial(torch.optim.SGD, lr=1)\nanswer = f(p)",
            "unknown: torch.optim.SGD is called through functools.partial",
        ),
        case(
            "mp.spawn",
            "import torch.multiprocessing as mp\ndef f(rank, x):\n    answer = x\nmp.spawn(f, args=(1,), nprocs=2)",
            "1",
        ),
        case(
            "Process",
            "from multiprocessing import Process\ndef f(x):\n    answer = x\nProcess(target=f, args=(1,)).start()",
            "1",
        ),
        case("max of numbers", "import torch\nanswer = max([each.item() for each in torch.ones(3)])", "plain"),
        case(
            "sum of a list that may get tensors",
            "import torch\nxs = [1]\nxs.append(torch.ones(3))\nanswer = sum(xs)",
            "tensor",
        ),
        case("a decorator of torch", "import torch\n@torch.no_grad()\ndef f(x):\n    return x\nanswer = f(1)", "1"),
        case(
            "a decorator of the project",
            "def timed(f):\n    def g(*a, **k):\n        return f(*a, **k)\n    return g\n@timed\ndef f(x):\n    return x\nanswer = f(1)",
            "1",
        ),
        case(
            "nothing calls it",
            "def f(x):\n    answer = x",
            "unknown: 'x' is a parameter of f(), which nothing in this file calls",
        ),
        case(
            "nothing calls it, with a default",
            "def f(x=1):\n    answer = x",
            "1",
            "unknown: 'x' is a parameter of f(), which nothing in this file calls",
        ),
        case(
            "handed to code that cannot be seen",
            "import lib\ndef f(x):\n    answer = x\nf(1)\nlib.call(f)",
            "1",
            "unknown: 'x' is a parameter of f(), which code outside this file calls",
        ),
        case(
            "nothing makes an object of the class",
            "class A:\n    def __init__(self, x):\n        answer = x",
            "unknown: 'x' is a parameter of class A, which nothing in this file calls",
        ),
        case(
            "a name is computed that may stand for it",
            "import sys\nclass A:\n    def __init__(self, x):\n        answer = x\neval(sys.argv[1])(1)",
            "unknown: 'x' is a parameter of class A, which nothing in this file calls by its own name",
        ),
        case(
            "a name that is written out is none that is computed",
            "def f(x):\n    answer = x\nglobals()['g'](1)",
            "unknown: 'x' is a parameter of f(), which nothing in this file calls",
        ),
        case(
            "**kwargs of a function that nothing calls",
            "def f(**k):\n    answer = k['x']",
            "unknown: 'k' is a parameter of f(), which nothing in this file calls",
        ),
        case(
            "click's options are chosen",
            "import click\n@click.command()\n@click.option('--x')\ndef f(x):\n    answer = x\nf()",
            "choice x",
        ),
        case(
            "hydra's configuration is chosen",
            "import hydra\n@hydra.main(config_name='c')\ndef f(cfg):\n    answer = cfg.a.b\nf()",
            "choice cfg.a.b",
        ),
        case("fire's functions are chosen", "import fire\ndef f(x):\n    answer = x\nfire.Fire()", "choice x"),
        case(
            "what fire makes is chosen",
            "import fire\nclass A:\n    def __init__(self, x):\n        answer = x\nfire.Fire(A)",
            "choice x",
        ),
        case("fire's arguments are chosen", "import fire\ndef f(x=1):\n    answer = x\nfire.Fire(f)", "1", "choice x"),
    ],
)
def test_between_functions(text: str, expected: set[str]) -> None:
    assert answers(text) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case(
            "self.x across methods",
            "class A:\n    def __init__(self):\n        self.x = 1\n    def f(self):\n        answer = self.x",
            "1",
        ),
        case("of an object", "class A:\n    def __init__(self, x):\n        self.x = x\na = A(1)\nanswer = a.x", "1"),
        case("written from outside", "class A:\n    pass\na = A()\na.x = 1\nanswer = a.x", "1"),
        case(
            "None at first",
            "class A:\n    def __init__(self):\n        self.x = None\n    def f(self):\n        self.x = 1\n    def g(self):\n        answer = self.x",
            "None",
            "1",
        ),
        case("class attribute", "class A:\n    x = 1\nanswer = A.x", "1"),
        case("class attribute through the object", "class A:\n    x = 1\nanswer = A().x", "1"),
        case(
            "object in an object",
            "class B:\n    x = 1\nclass A:\n    def __init__(self):\n        self.b = B()\nanswer = A().b.x",
            "1",
        ),
        case("method", "class A:\n    def f(self, x):\n        return x\nanswer = A().f(1)", "1"),
        case("method called on the class", "class A:\n    def f(self, x):\n        return x\nanswer = A.f(a, 1)", "1"),
        case("bound method kept", "class A:\n    def f(self, x):\n        return x\ng = A().f\nanswer = g(1)", "1"),
        case("staticmethod", "class A:\n    @staticmethod\n    def f(x):\n        return x\nanswer = A().f(1)", "1"),
        case(
            "classmethod",
            "class A:\n    @classmethod\n    def f(cls, x):\n        return cls()\nanswer = A.f(1)",
            "a A",
        ),
        case("property", "class A:\n    @property\n    def x(self):\n        return 1\nanswer = A().x", "1"),
        case(
            "property that can be set",
            "class A:\n    @property\n    def x(self):\n        return 1\n"
            "    @x.setter\n    def x(self, value):\n        return 2\nanswer = A().x",
            "1",
        ),
        case(
            "the last of two methods of one name",
            "class A:\n    def f(self):\n        return 1\n    def f(self):\n        return 2\nanswer = A().f()",
            "2",
        ),
        case("__call__", "class A:\n    def __call__(self, x):\n        return x\nanswer = A()(1)", "1"),
        case("__getitem__", "class A:\n    def __getitem__(self, i):\n        return 1\nanswer = A()[0]", "1"),
        case(
            "__iter__ that yields",
            "class A:\n    def __iter__(self):\n        yield 1\nfor x in A():\n    answer = x",
            "1",
        ),
        case(
            "__iter__ and __next__",
            "class A:\n    def __iter__(self):\n        return self\n    def __next__(self):\n        return 1\nfor x in A():\n    answer = x",
            "1",
        ),
        case(
            "inherited method",
            "class A:\n    def f(self):\n        return 1\nclass B(A):\n    pass\nanswer = B().f()",
            "1",
        ),
        case(
            "overridden method",
            "class A:\n    def f(self):\n        return 1\nclass B(A):\n    def f(self):\n        return 2\nanswer = B().f()",
            "2",
        ),
        case(
            "the base's own method stays its own",
            "class A:\n    def f(self):\n        return 1\nclass B(A):\n    def f(self):\n        return 2\nanswer = A().f()",
            "1",
        ),
        case(
            "a base calls what its subclass defines",
            "class A:\n    def run(self):\n        answer = self.f()\nclass B(A):\n    def f(self):\n        return 2\nB().run()",
            "2",
        ),
        case(
            "a base calls what its subclass overrides",
            "class A:\n    def run(self):\n        answer = self.f()\n    def f(self):\n        return 1\nclass B(A):\n    def f(self):\n        return 2\nB().run()",
            "1",
            "2",
        ),
        case(
            "inherited attribute",
            "class A:\n    def __init__(self):\n        self.x = 1\nclass B(A):\n    def f(self):\n        answer = self.x",
            "1",
        ),
        case(
            "super().__init__ with arguments",
            "class A:\n    def __init__(self, x):\n        self.x = x\nclass B(A):\n    def __init__(self):\n        super().__init__(1)\nanswer = B().x",
            "1",
        ),
        case(
            "super().f()",
            "class A:\n    def f(self):\n        return 1\nclass B(A):\n    def f(self):\n        return super().f()\nanswer = B().f()",
            "1",
        ),
        case(
            "super of the class that asks",
            "class A:\n    def f(self):\n        return 1\nclass B(A):\n    def f(self):\n        return super().f()\nclass C(B):\n    def f(self):\n        return super().f()\nanswer = C().f()",
            "1",
        ),
        case(
            "Base.__init__(self)",
            "class A:\n    def __init__(self, x):\n        self.x = x\nclass B(A):\n    def __init__(self):\n        A.__init__(self, 1)\nanswer = B().x",
            "1",
        ),
        case(
            "data class",
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n    y: int = 2\nanswer = A(1).x",
            "1",
        ),
        case(
            "data class, by keyword",
            "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n    y: int = 2\nanswer = A(1, y=3).y",
            "2",
            "3",
        ),
        case(
            "data class, a field of its base", "class A:\n    x: int\nclass B(A):\n    y: int\nanswer = B(1, 2).x", "1"
        ),
        case("getattr of a constant", "class A:\n    x = 1\nanswer = getattr(A(), 'x')", "1"),
        case("getattr with a default", "class A:\n    x = 1\nanswer = getattr(A(), 'x', 3)", "1", "3"),
        case(
            "getattr of what is not known",
            "class A:\n    pass\na = A()\na.x = 1\na.y = 2\nanswer = getattr(a, name)",
            "1",
            "2",
        ),
        case("setattr", "class A:\n    pass\na = A()\nsetattr(a, 'x', 1)\nanswer = a.x", "1"),
        case(
            "forward is called by the call",
            "from torch import nn\nclass A(nn.Module):\n    def forward(self, x):\n        return x\nanswer = A()(1)",
            "1",
        ),
        case(
            "a buffer",
            "import torch\nfrom torch import nn\nclass A(nn.Module):\n    def __init__(self):\n        self.register_buffer('m', torch.zeros(1))\n    def f(self):\n        answer = self.m",
            "host",
        ),
        case(
            "a base that is told of types",
            "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass A(Generic[T]):\n    def f(self):\n        return 1\nclass B(A[int]):\n    pass\nanswer = B().f()",
            "1",
        ),
        case(
            "an item of a list of bases",
            "class A:\n    def f(self):\n        return 1\nbases = [A]\nclass B(bases[0]):\n    pass\nanswer = B().f()",
            "1",
        ),
        case("the class of a base that is not known is not waited for", "class A(B):\n    x = 1\nanswer = A().x", "1"),
        case("class in a function", "def f():\n    class A:\n        x = 1\n    return A()\nanswer = f().x", "1"),
        case("function attribute", "def f():\n    pass\nf.x = 1\nanswer = f.x", "plain"),
    ],
)
def test_objects(text: str, expected: set[str]) -> None:
    assert answers(text) == [expected]


CONFIG = "from yacs.config import CfgNode\ncfg = CfgNode()\ncfg.lr = 1\ncfg.model = CfgNode()\ncfg.model.name = 'a'\n"
PARSE = "import argparse\nargs = argparse.ArgumentParser().parse_args()\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case("an argument", PARSE + "answer = args.workers", "choice args.workers"),
        case("not an argument", PARSE + "answer = not args.no_cuda", "choice args.no_cuda"),
        case(
            "parse_known_args",
            "import argparse\nargs, _ = argparse.ArgumentParser().parse_known_args()\nanswer = args.x",
            "choice args.x",
        ),
        case("handed to a function", PARSE + "def f(opt):\n    answer = opt.lr\nf(args)", "choice args.lr"),
        case(
            "kept in an object",
            PARSE + "class A:\n    def __init__(self, args):\n        self.args = args\nanswer = A(args).args.lr",
            "choice args.lr",
        ),
        case("vars()", PARSE + "answer = vars(args)['lr']", "choice args"),
        case("getattr", PARSE + "answer = getattr(args, 'lr')", "choice args.lr"),
        case("environment", "import os\nanswer = os.environ['X']", "choice os.environ"),
        case("environment with a default", "import os\nanswer = os.environ.get('X', 1)", "choice os.environ"),
        case("sys.argv", "import sys\nanswer = sys.argv[1]", "choice sys.argv"),
        case(
            "a configuration file", "import yaml\ncfg = yaml.safe_load(f)\nanswer = cfg['a']", "choice yaml.safe_load()"
        ),
        case("a flag of absl", "from absl import flags\nFLAGS = flags.FLAGS\nanswer = FLAGS.lr", "choice FLAGS.lr"),
        case("a run's configuration", "import wandb\nconfig = wandb.config\nanswer = config.lr", "choice config.lr"),
        case("a configuration with defaults", CONFIG + "answer = cfg.lr", "choice config.lr"),
        case("a copy of it", CONFIG + "answer = cfg.clone().model.name", "choice config.model.name"),
        case("a part of it", CONFIG + "answer = cfg.model.name", "choice config.model.name"),
        case("read by a function", CONFIG + "def f(c):\n    answer = c.lr\nf(cfg)", "choice config.lr"),
        case(
            "of a class of the project's own",
            CONFIG.replace("CfgNode()", "Config()").replace("cfg =", "class Config(CfgNode):\n    pass\ncfg =", 1)
            + "answer = cfg.lr",
            "choice config.lr",
        ),
        case(
            "a file of OmegaConf", "from omegaconf import OmegaConf\nanswer = OmegaConf.load('a').x", "choice config.x"
        ),
        case(
            "an object is kept in it",
            CONFIG + "cfg.make = list\nanswer = cfg.make",
            "builtins.list",
            "choice config.make",
        ),
        case("overwritten before it is read", PARSE + "args.x = 1\nanswer = args.x", "1"),
        case("read before it is overwritten", PARSE + "answer = args.x\nargs.x = 1", "choice args.x"),
        case("overwritten from itself", PARSE + "args.x = [args.x]\nanswer = args.x[0]", "choice args.x"),
        case(
            "overwritten in one way",
            PARSE + "if args.x is None:\n    args.x = 1\nanswer = args.x",
            "1",
            "choice args.x",
        ),
        case(
            "overwritten in both ways",
            PARSE + "if c:\n    args.x = 1\nelse:\n    args.x = 2\nanswer = args.x",
            "1",
            "2",
        ),
        case("overwritten, read in a function", PARSE + "args.x = 1\ndef f(opt):\n    answer = opt.x\nf(args)", "1"),
        case(
            "overwritten in one way, read in a function",
            PARSE + "if c:\n    args.x = 1\ndef f(opt):\n    answer = opt.x\nf(args)",
            "1",
            "choice args.x",
        ),
        case(
            "overwritten in a function",
            PARSE + "def f(a):\n    a.x = 1\nf(args)\ndef g():\n    answer = args.x\ng()",
            "1",
        ),
        case(
            "another object's attribute of that name",
            PARSE + "class A: pass\nA().x = 1\nanswer = args.x",
            "choice args.x",
        ),
        case("long names end", PARSE + "answer = args.a.b.c.d.e", "choice args.a.b"),
        case(
            "a chain that goes on for ever ends",
            PARSE + "while c:\n    args = args.next\n    args.next = args\nanswer = args",
            "choice args",
            "choice args.next",
            "choice args.next.next",
        ),
        case(
            "device by choice",
            PARSE + "import torch\nargs.device = torch.device(args.device)\nanswer = args.device",
            "torch.device()",
        ),
    ],
)
def test_what_the_user_chooses(text: str, expected: set[str]) -> None:
    assert answers(text) == [expected]


BATCHES = "import torch\nfrom torch.utils.data import DataLoader\nloader = DataLoader(data)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case("for x in loader", "for x in loader:\n    answer = x", "batch"),
        case("for x, y in loader", "for x, y in loader:\n    answer = y", "batch"),
        case("for i, (x, y) in enumerate(loader)", "for i, (x, y) in enumerate(loader):\n    answer = x", "batch"),
        case("batch['x']", "for b in loader:\n    answer = b['x']", "batch"),
        case("a field of the batch", "for b in loader:\n    answer = b.text", "batch"),
        case("next(iter(loader))", "x, y = next(iter(loader))\nanswer = x", "batch"),
        case(
            "tqdm around enumerate",
            "from tqdm import tqdm\nfor i, x in tqdm(enumerate(loader)):\n    answer = x",
            "batch",
        ),
        case(
            "enumerate around tqdm",
            "from tqdm.auto import tqdm\nfor i, x in enumerate(tqdm(loader)):\n    answer = x",
            "batch",
        ),
        case(
            "a bar in a variable", "from tqdm import tqdm\nbar = tqdm(loader)\nfor x in bar:\n    answer = x", "batch"
        ),
        case("zip of two", "for (x, _), b in zip(loader, loader):\n    answer = x", "batch"),
        case(
            "loaders of phases",
            "loaders = {'train': loader, 'val': loader}\nfor p in ['train', 'val']:\n    for x in loaders[p]:\n        answer = x",
            "batch",
        ),
        case(
            "dictionary of loaders, by comprehension",
            "ls = {p: DataLoader(d[p]) for p in ['a', 'b']}\nfor x in ls['a']:\n    answer = x",
            "batch",
        ),
        case(
            "a generator that cycles",
            "def cycle(dl):\n    while True:\n        for b in dl:\n            yield b\nit = cycle(loader)\nanswer = next(it)",
            "batch",
        ),
        case(
            "an iterator that is begun anew",
            "it = iter(loader)\ntry:\n    x = next(it)\nexcept StopIteration:\n    it = iter(loader)\n    x = next(it)\nanswer = x",
            "batch",
        ),
        case(
            "through a function",
            "def make():\n    return loader, 1\ndef train(dl):\n    for x in dl:\n        answer = x\na, b = make()\ntrain(a)",
            "batch",
        ),
        case("a view", "for x in loader:\n    answer = x.view(-1)", "batch"),
        case("moved", "for x in loader:\n    answer = x.to(device)", "moved"),
        case("moved into the same name", "for x in loader:\n    x = x.cuda()\n    answer = x", "moved"),
        case("moved in one way", "for x in loader:\n    if c:\n        x = x.cuda()\n    answer = x", "batch", "moved"),
        case("moved in the pass before", "for x in loader:\n    answer = x\n    x = x.cuda()", "batch"),
        case("moved all at once", "for b in loader:\n    x, y = [t.cuda() for t in b]\n    answer = y", "moved"),
        case("moved and back", "for x in loader:\n    answer = x.cuda().cpu()", "host"),
        case("another number format is a copy", "for x in loader:\n    answer = x.half()", "host"),
        case(
            "what may be of that number format is no copy", "for x in loader:\n    answer = x.float()", "batch", "host"
        ),
        case("to a number format", "for x in loader:\n    answer = x.to(torch.float16)", "host"),
        case("to the CPU", "for x in loader:\n    answer = x.to('cpu')", "host"),
        case("indexed by a tensor is a copy", "for x in loader:\n    answer = x[torch.randperm(3)]", "host"),
        case("arithmetic makes a new tensor", "for x in loader:\n    answer = x / 255", "host"),
        case("in place it stays the batch", "for x in loader:\n    x /= 255\n    answer = x", "batch"),
        case("computed on the device", "for x in loader:\n    answer = torch.relu(x.cuda())", "moved"),
        case("a number", "for x in loader:\n    answer = x.size(0)", "plain"),
        case("a tensor made on the host", "answer = torch.randn(3)", "host"),
        case("a tensor made on a device", "answer = torch.randn(3, device=d)", "moved"),
        case("a legacy tensor of CUDA", "answer = torch.cuda.FloatTensor(3)", "moved"),
        case("Variable", "from torch.autograd import Variable\nfor x in loader:\n    answer = Variable(x)", "batch"),
    ],
)
def test_batches_and_where_they_are(text: str, expected: set[str]) -> None:
    assert answers(BATCHES + text) == [expected]


@pytest.mark.parametrize(
    ("text", "others", "expected"),
    [
        pytest.param(
            "from utils import make\nanswer = make()", {"utils": "def make():\n    return 1"}, {"1"}, id="from import"
        ),
        pytest.param("import utils\nanswer = utils.make()", {"utils": "def make():\n    return 1"}, {"1"}, id="import"),
        pytest.param("import utils as u\nanswer = u.x", {"utils": "x = 1"}, {"1"}, id="import as"),
        pytest.param("from utils import *\nanswer = x", {"utils": "x = 1\n_y = 2"}, {"1"}, id="star import"),
        pytest.param(
            "from utils import *\nanswer = _y",
            {"utils": "_y = 2"},
            {"unknown: '_y' is defined in no place that can be seen"},
            id="no private name by a star import",
        ),
        pytest.param(
            "import importlib\nanswer = importlib.import_module('utils').x",
            {"utils": "x = 1"},
            {"1"},
            id="a module by its name",
        ),
        pytest.param(
            "answer = __import__('utils').x", {"utils": "x = 1"}, {"1"}, id="a module by the builtin function"
        ),
        pytest.param(
            "import utils\nclass A: f = staticmethod(utils.f)\nanswer = A().f(2)",
            {"utils": "def f(x):\n    return x"},
            {"2"},
            id="a function of another module in a class",
        ),
        pytest.param("import pkg.data\nanswer = pkg.data.x", {"pkg__data": "x = 1"}, {"1"}, id="a module of a package"),
        pytest.param(
            "from pkg import data\nanswer = data.x",
            {"pkg": "", "pkg__data": "x = 1"},
            {"1"},
            id="a module from a package that was read too",
        ),
        pytest.param(
            "from pkg.data import x\nanswer = x",
            {"pkg__data": "from .more import x", "pkg__more": "x = 1"},
            {"1"},
            id="relative import of one beside it",
        ),
        pytest.param(
            "from a import f\ndef g():\n    return 1\nanswer = f()",
            {"a": "from b import h\ndef f():\n    return h()", "b": "def h():\n    return 3"},
            {"3"},
            id="through two modules",
        ),
        pytest.param(
            "from a import f\nanswer = f()",
            {"a": "import b\ndef f():\n    return b.g()", "b": "import a\ndef g():\n    return 1"},
            {"1"},
            id="modules that import each other",
        ),
        pytest.param(
            "from a import B\nclass C(B):\n    pass\nanswer = C().f()",
            {"a": "class B:\n    def f(self):\n        return 1"},
            {"1"},
            id="a base class of another module",
        ),
        pytest.param(
            "from a import train\ntrain(1)\nanswer = 0",
            {"a": "def train(x):\n    pass"},
            {"0"},
            id="its functions are called from here",
        ),
        pytest.param(
            "import torch.nn as nn\nfrom net import Net\nanswer = Net()",
            {"net": "from torch import nn\nclass Net(nn.Module): pass"},
            {"a Net"},
            id="a model of another module",
        ),
        pytest.param(
            "from other import x\nanswer = x", {"utils": "x = 1"}, {"other.x"}, id="a module that was not read"
        ),
        pytest.param(
            "import argparse, nets\nargs = argparse.ArgumentParser().parse_args()\n"
            "answer = nets.__dict__[args.arch](classes=9)",
            {
                "nets": "def layer(width):\n    return 0\nclass Net:\n    def __init__(self, depth, classes):\n"
                "        pass\ndef shallow(classes):\n    return Net(1, classes)\n"
                "def deep(**given):\n    return Net(9, **given)"
            },
            {"a Net"},
            id="what takes the arguments, of all in a module",
        ),
        pytest.param(
            "import argparse, nets\nargs = argparse.ArgumentParser().parse_args()\nanswer = nets.__dict__[args.arch](9)",
            {
                "nets": "import enum\nclass Size(enum.Enum):\n    LARGE = 9, 1\n"
                "    def __init__(self, depth, width):\n        pass\ndef shallow(classes):\n    return 0"
            },
            {"0", "a Size"},
            id="a class that its call does not make anew",
        ),
    ],
)
def test_between_modules(text: str, others: dict[str, str], expected: set[str]) -> None:
    assert answers(text, **others) == [expected]


_NET = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case("an option", "args.cuda = torch.cuda.is_available()\nanswer = Net().cuda()", "a Net"),
        case(
            "an option of the command line",
            "args = parser().parse_args()\nargs.cuda = 1\nanswer = Net().cuda()",
            "a Net",
        ),
        case(
            "a flag of a data set",
            "class Data:\n    def __init__(self, cuda):\n        self.cuda = cuda\nData(1)\nanswer = Net().cuda()",
            "a Net",
        ),
        case(
            "a method of another model",
            "class B(torch.nn.Module):\n    def cuda(self):\n        pass\nanswer = Net().cuda()",
            "a Net",
        ),
        case("a flag of its own", "class B(Net):\n    def f(self):\n        self.cuda = 1\nanswer = B().cuda", "1"),
        case("a flag that is given from outside", "net = Net()\nnet.cuda = 1\nanswer = net.cuda", "1"),
        case(
            "the model is moved first and given to a function that writes it",
            "def f(x):\n    x.cuda = 1\n    return x.cuda\nanswer = f(Net().cuda())",
            "plain",
            "method cuda",
        ),
        case(
            "some object's method", "def f():\n    pass\nfor m in lib.modules():\n    m.cuda = f\nanswer = Net().cuda()"
        ),
        case(
            "a field",
            "import dataclasses\n@dataclasses.dataclass\nclass A:\n    cuda: bool\nx.cuda = 1\nanswer = A.cuda",
        ),
        case(
            "of a subclass, seen from its base",
            "class B(Net):\n    def cuda(self):\n        return 2\nclass A(Net):\n    pass\nanswer = A().cuda()",
            "a A",
        ),
    ],
)
def test_a_name_hides_the_library_s_where_it_is_written_only(text: str, expected: set[str]) -> None:
    assert answers(_NET + text) == [expected]


def test_callers_and_escapes_of_a_function() -> None:
    found = script("import lib\ndef f(x): pass\ndef g(): pass\nf(1)\nf(2)\nlib.run(g)\n")
    functions = {node.name: node for node, _, _ in found.flow.functions()}
    assert [call.lineno for call in found.flow.callers(functions["f"])] == [4, 5]
    assert not found.flow.escapes(functions["f"])
    assert not found.flow.callers(functions["g"])
    assert found.flow.escapes(functions["g"])


def test_names_before_a_statement() -> None:
    found = script("x = 1\nif c:\n    y = 2\nz = 3\n")
    last = found.module.tree.body[-1]
    before = found.flow.before(last)
    assert set(before) == {"x", "y"}
    assert len(before) == 2
    assert {value.name for value in before["x"]} == {"1"}
    assert len(before["y"]) == 2, "it may be unbound"


def test_a_place_with_very_many_things_is_not_followed() -> None:
    calls = "".join(f"same(C{i}())\n" for i in range(90))
    classes = "".join(f"class C{i}: pass\n" for i in range(90))
    assert answers(f"{classes}def same(x):\n    return x\n{calls}answer = same(C0())") == [
        {"unknown: a value may be one of very many things"}
    ]


def test_sixty_models_of_which_an_option_chooses_one_are_followed() -> None:
    classes = "".join(f"class C{i}: pass\n" for i in range(60))
    branches = "".join(f"    if name == {i}:\n        return C{i}()\n" for i in range(60))
    (found,) = answers(f"{classes}def chosen(name):\n{branches}answer = chosen(n)")
    assert len(found) == 60 + 1, "or None"


def test_much_data_is_but_data() -> None:
    assert answers(f"x = {list(range(500))}\nanswer = x[i]") == [{"plain"}]
    assert answers(f"x = {list(range(500))}\nanswer = x[7]") == [{"7"}]
    assert answers(f"x = {dict.fromkeys(map(str, range(500)), 1)}\nanswer = x['3']") == [{"1"}]


@pytest.mark.parametrize("last", ["shapes", "shapes__cube"])
def test_a_star_import_binds_its_names_whichever_module_is_read_first(last: str) -> None:
    package = {"shapes": "from .cube import *", "shapes__cube": "class Cube:\n    pass"}
    ordered = dict(sorted(package.items(), key=lambda each: each[0] == last))
    assert answers("from shapes import *\ndef f():\n    return Cube()\nanswer = f()", **ordered) == [{"a Cube"}]


SHAPES = {
    "shapes__cube": "class Cube: pass\ndef cube():\n    return 1\n_hidden = 3",
    "shapes__ball": "__all__ = ['ball']\ndef ball():\n    return 2\ndef cube():\n    return 4",
}
STARS = {"shapes": "from .cube import *\nfrom .ball import *", **SHAPES}
NAMED = {"shapes": "from .cube import cube\nfrom .ball import ball", **SHAPES}


def in_package(reason: str, text: str, others: dict[str, str], *expected: str) -> object:
    """One script and a package that it imports, with one answer."""
    return pytest.param(text, others, set(expected), id=reason)


@pytest.mark.parametrize(
    ("text", "others", "expected"),
    [
        in_package("through two stars", "from shapes import *\nanswer = cube()", STARS, "1"),
        in_package("what __all__ leaves out", "from shapes.ball import *\nanswer = cube", STARS, "unknown: 'cube' is defined in no place that can be seen"),
        in_package("private names that __all__ lists", "from p import *\nanswer = _x", {"p": "__all__ = ('_x',)\n_x = 1"}, "1"),
        in_package("an __all__ that grows", "from p import *\nanswer = x", {"p": "__all__ = []\n__all__ += other\nx = 1"}, "1"),
        in_package("modules that import * of each other", "from a import *\nanswer = y", {"a": "from b import *\nx = 1", "b": "from a import *\ny = 2"}, "2"),
        in_package("in a function", "from shapes import *\ndef f():\n    return ball()\nanswer = f()", STARS, "2"),
        in_package("a submodule by a star", "from shapes import *\nanswer = cube._hidden", {**STARS, "shapes": "from .cube import Cube"}, "3"),
        in_package("a function named as its module", "from shapes import cube\nanswer = cube()", NAMED, "1"),
        in_package("by a star in the package", "import shapes\nanswer = shapes.cube()", STARS, "1"),
        in_package("of a package", "import shapes\nanswer = shapes.ball()", NAMED, "2"),
        in_package("from a module of that name", "from shapes.cube import cube\nanswer = cube()", NAMED, "1"),
        in_package("the module, where the name is bound in it alone", "from shapes import cube\nanswer = cube._hidden", {**NAMED, "shapes": ""}, "3"),
        in_package("chosen by getattr", "import shapes\nanswer = getattr(shapes, name)", STARS, "class Cube", "def ball", "def cube"),
        in_package("chosen by __dict__", "import shapes\nanswer = shapes.__dict__[name]", NAMED, "def ball", "def cube"),
        in_package("chosen by vars()", "import shapes\nanswer = vars(shapes)[name]", NAMED, "def ball", "def cube"),
        in_package("chosen where a library's names are taken in, too", "import shapes\nanswer = vars(shapes)[name]", {"shapes": "from far import *\ndef own(): pass"}, "def own", "far.?"),
        in_package("chosen from nothing", "import shapes\nanswer = getattr(shapes, name)", {**SHAPES, "shapes": ""}, "unknown: shapes.py binds no name"),
    ],
)  # fmt: skip
def test_what_packages_offer(text: str, others: dict[str, str], expected: set[str]) -> None:
    assert answers(text, **others) == [expected]


PLAIN = "THINGS = {}\ndef register(thing):\n    THINGS[thing.__name__] = thing\n    return thing"
NAMED_ONE = """
THINGS = {}
def register(name):
    def add(thing):
        THINGS[name] = thing
        return thing
    return add
"""
METHOD = """
class Registry:
    def __init__(self):
        self.things = {}
    def register(self, name=None):
        def add(thing):
            self.things[name or thing.__name__] = thing
            return thing
        return add
    def get(self, name):
        return self.things[name]
THINGS = Registry()
"""
STATIC = "THINGS = {}\nclass Add:\n    @staticmethod\n    def here(thing):\n        THINGS['a'] = thing\n        return thing"
WRAPS = "def timed(function):\n    def run(*args):\n        return function(*args)\n    return run"
MAYBE = (
    "THINGS = {}\ndef maybe(thing):\n    if not thing:\n        return None\n    THINGS['a'] = thing\n    return thing"
)


def registered(reason: str, registry: str, text: str, *expected: str) -> object:
    """A module with a decorator, and a script with one answer."""
    return pytest.param(registry, text, set(expected), id=reason)


@pytest.mark.parametrize(
    ("registry", "text", "expected"),
    [
        registered("a function", PLAIN, "@register\ndef f():\n    return 1\nanswer = THINGS[name]()", "1"),
        registered("a class", PLAIN, "@register\nclass C: pass\nanswer = THINGS[name]()", "a C"),
        registered("under a name", NAMED_ONE, "@register('a')\ndef f():\n    return 1\nanswer = THINGS['a']()", "1"),
        registered("any of several", NAMED_ONE, "@register('a')\nclass C: pass\n@register('b')\nclass D: pass\nanswer = THINGS['b']()", "a C", "a D"),
        registered("by a method", METHOD, "@THINGS.register()\nclass C: pass\nanswer = THINGS.get(name)()", "a C"),
        registered("by a static method", STATIC, "@Add.here\nclass C: pass\nanswer = THINGS['a']()", "a C"),
        registered("the class keeps its name", PLAIN, "@register\nclass C: pass\nanswer = C()", "a C"),
        registered("what wraps is passed over", WRAPS, "@timed\ndef f(x):\n    return x\nanswer = f(1)", "1"),
        registered("what may return something else, too", MAYBE, "@maybe\ndef f():\n    return 1\nanswer = THINGS['a']", "unknown: 'thing' is a parameter of maybe(), which nothing in the project calls"),
        registered("by a call", PLAIN, "def f():\n    return 1\nregister(f)\nanswer = THINGS[name]()", "1"),
        registered("by a decorator and by unseen code", PLAIN, "@register\ndef f():\n    return 1\nfar.run(register)\nanswer = THINGS[name]", "def f", "unknown: 'thing' is a parameter of register(), which code outside the project calls"),
    ],
)  # fmt: skip
def test_registered_by_a_decorator(registry: str, text: str, expected: set[str]) -> None:
    assert answers(f"import far\nfrom registry import *\n{text}", registry=registry) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case("of a namespace", "import types\nn = types.SimpleNamespace()\nsetattr(n, key, 1)\nanswer = n.a", "1"),
        case("beside a name that is written", "import types\nn = types.SimpleNamespace(a=2)\nsetattr(n, key, 1)\nanswer = n.a", "1", "2"),
        case("as the key of a registry", "import types\nn = types.SimpleNamespace()\nsetattr(n, key, json)\nanswer = {'a': 2}[n.a]", "2"),
        case("of an object", "class C:\n    def __init__(self, **given):\n        for k, v in given.items():\n            setattr(self, k, v)\nanswer = C(a=1).a", "1"),
        case("of an object that has the name", "class C:\n    def __init__(self):\n        self.a = 2\n        setattr(self, key, 1)\nanswer = C().a", "2"),
        case("of a library's model", "import torchvision\nm = torchvision.models.resnet18()\nsetattr(m, key, 1)\nanswer = m.parameters", "method parameters"),
        case("of a model", "from torch import nn\nclass C(nn.Module):\n    def __init__(self):\n        setattr(self, key, 1)\nanswer = C().parameters", "method parameters"),
    ],
)  # fmt: skip
def test_attributes_whose_names_are_computed(text: str, expected: set[str]) -> None:
    assert answers(text) == [expected]


@pytest.mark.parametrize(
    ("called", "name"),
    [
        pytest.param("f", "f", id="a function"),
        pytest.param("Both().f", "f", id="a method"),
        pytest.param("Both()", "__call__", id="of an object __call__, which may call forward or not"),
        pytest.param("Forward()", "forward", id="of a module forward"),
        pytest.param("Derived()", "forward", id="of an object of a derived class, its base's"),
        pytest.param("Forward().__call__", "forward", id="of a module's own __call__ its forward"),
        pytest.param("iterator()", None, id="nothing of what a function that yields returns"),
        pytest.param("Neither()", None, id="nothing of an object that cannot be called"),
        pytest.param("Forward", None, id="nothing of a class, which makes an object"),
        pytest.param("len", None, id="nothing of a library's function"),
    ],
)
def test_the_function_that_a_call_runs(called: str, name: str | None) -> None:
    classes = {
        "Both": "def forward(self): pass\n    def __call__(self): pass\n    def f(self): pass",
        "Forward(nn.Module)": "def forward(self, x): pass",
        "Derived(Forward)": "pass",
        "Neither": "pass",
    }
    text = "".join(f"class {each}:\n    {body}\n" for each, body in classes.items())
    found = script(f"from torch import nn\n{text}def f(): pass\ndef iterator(): yield 1\nanswer = {called}")
    (value,) = found.flow.values(found.module.tree.body[-1].value)  # type: ignore[attr-defined]
    function = found.flow.run_by(value)
    assert getattr(function, "name", None) == name


def test_calls_of_a_librarys_function_are_told_in_the_order_of_the_text() -> None:
    text = "import torch as t\ngrad = t.autograd.grad\ngrad(a, b)\nt.save(a, b)\nt.autograd.grad(c, d)\nprint(t.save)\n"
    known = script(text)
    found = known.flow.calls_of(known.module, {"torch.autograd.grad", "torch.save", "torch.load"})
    assert [each.lineno for each in found] == [3, 4, 5]


def test_what_calls_a_module_s_own_call_runs_its_forward() -> None:
    text = """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __call__(self, x):
                return super().__call__(x)

            def forward(self, x):
                return x.cuda()

        answer = Net()(torch.ones(3))
    """
    assert answers(text) == [{"moved"}]
