"""What a row is made of: variables, grouped into attributes, grouped into a schema.

A *variable* is one column: it has a kind, and so a likelihood. An *attribute* is the paper's x_i, one or more
variables that are seen or missing together: it has one bit of the mask and one latent z_i. Most attributes hold
one variable.

>>> schema = Schema([real("age"), categorical("colour", 3), group("pressure", positive("upper"), positive("lower"))])
>>> len(schema), [v.name for v in schema.variables]
(3, ['age', 'colour', 'upper', 'lower'])
>>> [block.family for block in schema.blocks]
[<Family.GAUSSIAN: 'gaussian'>, <Family.CATEGORICAL: 'categorical'>]
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

NameT = TypeVar("NameT", bound=Hashable)


class SchemaError(ValueError):
    """The schema, or data that claims to follow it, is wrong; the message names the attribute and the remedy."""


class Family(enum.Enum):
    """Variables of one family and one width share a likelihood, and are computed as one block."""

    GAUSSIAN = "gaussian"
    INTERVAL = "interval"
    BERNOULLI = "bernoulli"
    CATEGORICAL = "categorical"
    CUMULATIVE = "cumulative"
    VECTOR = "vector"
    IMAGE = "image"


class Kind(enum.Enum):
    """What the values of a variable are."""

    REAL = "real"  # any number
    POSITIVE = "positive"  # numbers above zero
    COUNT = "count"  # whole numbers
    BINARY = "binary"  # two levels
    CATEGORICAL = "categorical"  # levels without an order
    ORDINAL = "ordinal"  # levels with an order
    VECTOR = "vector"  # several real numbers that mean something only together
    IMAGE = "image"  # pixels in [0, 1], channels first


FAMILY_OF: dict[Kind, Family] = {
    Kind.REAL: Family.GAUSSIAN,
    Kind.POSITIVE: Family.GAUSSIAN,  # of the logarithm: see encoding.py
    Kind.COUNT: Family.INTERVAL,
    Kind.BINARY: Family.BERNOULLI,
    Kind.CATEGORICAL: Family.CATEGORICAL,
    Kind.ORDINAL: Family.CUMULATIVE,
    Kind.VECTOR: Family.VECTOR,
    Kind.IMAGE: Family.IMAGE,
}

#: What a pixel is to the likelihood; see likelihoods/images.py.
Pixels = Literal["gaussian", "bernoulli", "discretised"]

#: Families whose values are level codes 0 … size - 1.
DISCRETE = frozenset({Family.BERNOULLI, Family.CATEGORICAL, Family.CUMULATIVE})

#: Kinds that hold one number; the first and last may have bounds.
NUMBERS = frozenset({Kind.REAL, Kind.POSITIVE, Kind.COUNT})


@dataclass(frozen=True)
class Variable:
    """One column. `size` is the number of levels (discrete kinds), of entries (vectors, images), or 1."""

    name: str
    kind: Kind
    size: int = 1
    min: float | None = None  # inclusive bounds, of reals and counts
    max: float | None = None
    shape: tuple[int, int, int] | None = None  # of images: channels, height, width
    pixels: Pixels = "gaussian"

    def __post_init__(self) -> None:
        if not isinstance(self.kind, Kind):
            known = ", ".join(kind.value for kind in Kind)
            raise SchemaError(f"variable {self.name!r}: unknown kind {self.kind!r}; use one of {known}")
        if self.size < 1:
            raise SchemaError(f"variable {self.name!r}: size must be at least 1, not {self.size}")
        if self.kind is Kind.BINARY and self.size != 2:
            raise SchemaError(f"variable {self.name!r}: a binary variable has 2 levels, not {self.size}")
        if self.kind in NUMBERS and self.size != 1:
            raise SchemaError(f"variable {self.name!r}: {self.kind.value} holds one number; use a vector")
        if self.bounded and self.kind not in (Kind.REAL, Kind.COUNT):
            raise SchemaError(f"variable {self.name!r}: bounds are for reals and counts, not {self.kind.value}")
        if self.min is not None and self.max is not None and not self.min < self.max:
            raise SchemaError(f"variable {self.name!r}: min {self.min} is not below max {self.max}")
        if (self.kind is Kind.IMAGE) != (self.shape is not None):
            raise SchemaError(
                f"variable {self.name!r}: an image, and nothing else, has a shape; use image(name, shape)"
            )
        if self.shape is not None and (len(self.shape) != 3 or min(self.shape) < 1):
            raise SchemaError(f"variable {self.name!r}: shape must be (channels, height, width), not {self.shape}")
        if self.pixels not in get_args(Pixels):
            known = ", ".join(get_args(Pixels))
            raise SchemaError(f"variable {self.name!r}: unknown pixels {self.pixels!r}; use one of {known}")

    @cached_property
    def event(self) -> tuple[int, ...]:
        """The shape of one value in a batch, codes and intervals aside."""
        return self.shape or ((self.size,) if self.kind is Kind.VECTOR else ())

    @cached_property
    def entries(self) -> int:
        """How many numbers one value is; a level is one."""
        return math.prod(self.event)

    @property
    def bounded(self) -> bool:
        return self.min is not None or self.max is not None

    @cached_property
    def family(self) -> Family:
        """A bounded real is one whose outermost values stand for all that lies beyond: an interval, too."""
        return Family.INTERVAL if self.bounded else FAMILY_OF[self.kind]


@dataclass(frozen=True)
class Attribute:
    """x_i of the paper: variables that are observed or missing together, with one latent.

    `context` is computed from a table and helps to predict it: it is never withheld, nor imputed.
    """

    name: str
    variables: tuple[Variable, ...]
    context: bool = False

    def __post_init__(self) -> None:
        if not self.variables:
            raise SchemaError(f"attribute {self.name!r} has no variables")


@dataclass(frozen=True)
class Block:
    """The variables of one family (vectors: of one width; images: of one shape and likelihood), computed together."""

    family: Family
    variables: tuple[Variable, ...]
    attributes: tuple[int, ...]  # for each variable, the index of its attribute

    @cached_property
    def name(self) -> str:
        pixels = self.variables[0].pixels
        return self.family.value + "x".join(map(str, self.event)) + (f"-{pixels}" if pixels != "gaussian" else "")

    @property
    def event(self) -> tuple[int, ...]:
        return self.variables[0].event

    @property
    def width(self) -> int:
        """Entries of a value."""
        return self.variables[0].entries

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(variable.size for variable in self.variables)

    @cached_property
    def logarithmic(self) -> NDArray[np.bool_]:
        """Of each variable, whether it is read as its logarithm: (variables,), of vectors (variables, 1)."""
        flags = np.array([variable.kind is Kind.POSITIVE for variable in self.variables])
        return flags[:, None] if self.family is Family.VECTOR else flags

    @cached_property
    def counts(self) -> NDArray[np.bool_]:
        """Of each variable, whether it counts."""
        return np.array([variable.kind is Kind.COUNT for variable in self.variables])

    @cached_property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the greatest value of each variable, ∓∞ where there is none."""
        low = np.array([-np.inf if v.min is None else v.min for v in self.variables], dtype=np.float64)
        high = np.array([np.inf if v.max is None else v.max for v in self.variables], dtype=np.float64)
        return low, high

    @cached_property
    def affine(self) -> bool:
        """Whether the variables are only shifted and scaled, and unbounded."""
        return not any(v.kind is Kind.POSITIVE or v.bounded for v in self.variables)

    def __len__(self) -> int:
        return len(self.variables)


@dataclass(frozen=True)
class Schema:
    """The attributes of a row, in order.

    >>> Schema([real("a"), real("a")])
    Traceback (most recent call last):
    vsae.data.schema.SchemaError: attribute 'a' appears twice; names must be unique
    """

    attributes: tuple[Attribute, ...] = field()

    def __init__(self, attributes: Iterable[Attribute]) -> None:
        object.__setattr__(self, "attributes", tuple(attributes))
        if not self.attributes:
            raise SchemaError("a schema needs at least one attribute")
        for what, names in (("attribute", self.names), ("variable", [variable.name for variable in self.variables])):
            for name in repeated(names):
                raise SchemaError(f"{what} {name!r} appears twice; names must be unique")

    def __len__(self) -> int:
        return len(self.attributes)

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    @property
    def names(self) -> list[str]:
        return [attribute.name for attribute in self.attributes]

    @cached_property
    def variables(self) -> tuple[Variable, ...]:
        return tuple(variable for attribute in self.attributes for variable in attribute.variables)

    @cached_property
    def context(self) -> list[int]:
        """The attributes that are read and never asked for."""
        return [i for i, attribute in enumerate(self.attributes) if attribute.context]

    @cached_property
    def attribute_of(self) -> dict[str, int]:
        """Variable name → index of the attribute it belongs to."""
        return {v.name: i for i, attribute in enumerate(self.attributes) for v in attribute.variables}

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Variables gathered by family and width, in the order of `Family`."""
        order = list(Family)
        members: dict[tuple[int, tuple[int, ...], str], list[Variable]] = {}
        for variable in self.variables:
            members.setdefault((order.index(variable.family), variable.event, variable.pixels), []).append(variable)
        return tuple(
            Block(order[family], tuple(variables), tuple(self.attribute_of[v.name] for v in variables))
            for (family, _, _), variables in sorted(members.items(), key=lambda item: item[0])
        )

    @cached_property
    def block(self) -> dict[str, Block]:
        """The blocks by name."""
        return {block.name: block for block in self.blocks}

    @cached_property
    def number_blocks(self) -> list[Block]:
        """Blocks whose variables are one number each."""
        return [block for block in self.blocks if block.family in (Family.GAUSSIAN, Family.INTERVAL)]

    @cached_property
    def standardised_blocks(self) -> list[Block]:
        """Those, and the blocks of vectors: everything that has units."""
        return [block for block in self.blocks if block.family not in (*DISCRETE, Family.IMAGE)]

    @cached_property
    def image_blocks(self) -> list[Block]:
        return [block for block in self.blocks if block.family is Family.IMAGE]

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {
                "name": attribute.name,
                "variables": [_variable_to_json(variable) for variable in attribute.variables],
                **({"context": True} if attribute.context else {}),
            }
            for attribute in self.attributes
        ]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> Schema:
        return cls(
            Attribute(item["name"], tuple(map(_variable_from_json, item["variables"])), item.get("context", False))
            for item in data
        )


def _variable_to_json(v: Variable) -> dict[str, Any]:
    common = {"name": v.name, "kind": v.kind.value, "size": v.size, "min": v.min, "max": v.max}
    return common if v.shape is None else common | {"shape": list(v.shape), "pixels": v.pixels}


def _variable_from_json(v: dict[str, Any]) -> Variable:
    image = {"shape": tuple(v["shape"]), "pixels": v["pixels"]} if "shape" in v else {}
    return Variable(v["name"], Kind(v["kind"]), v["size"], v["min"], v["max"], **image)


def repeated(names: Iterable[NameT]) -> dict[NameT, int]:
    """The names that occur more than once, and how often.

    >>> repeated(["a", "b", "a"])
    {'a': 2}
    """
    return {name: times for name, times in Counter(names).items() if times > 1}


def real(name: str, *, min: float | None = None, max: float | None = None) -> Attribute:
    return _single(Variable(name, Kind.REAL, min=min, max=max))


def positive(name: str) -> Attribute:
    return _single(Variable(name, Kind.POSITIVE))


def count(name: str, *, min: float | None = 0, max: float | None = None) -> Attribute:
    return _single(Variable(name, Kind.COUNT, min=min, max=max))


def binary(name: str) -> Attribute:
    return _single(Variable(name, Kind.BINARY, 2))


def categorical(name: str, levels: int) -> Attribute:
    return _single(Variable(name, Kind.CATEGORICAL, levels))


def ordinal(name: str, levels: int) -> Attribute:
    return _single(Variable(name, Kind.ORDINAL, levels))


def vector(name: str, width: int) -> Attribute:
    return _single(Variable(name, Kind.VECTOR, width))


def image(name: str, shape: tuple[int, int, int] = (1, 28, 28), *, pixels: Pixels = "gaussian") -> Attribute:
    """An image of (channels, height, width) pixels, each in [0, 1].

    >>> Schema([image("left"), image("right"), image("photo", (3, 32, 32))]).blocks[0].name
    'image1x28x28'
    """
    return _single(Variable(name, Kind.IMAGE, math.prod(shape), shape=shape, pixels=pixels))


def group(name: str, *attributes: Attribute) -> Attribute:
    """Make one attribute of several: they are observed or missing together and share one latent.

    >>> [v.name for v in group("pressure", real("upper"), real("lower")).variables]
    ['upper', 'lower']
    """
    return Attribute(name, tuple(variable for attribute in attributes for variable in attribute.variables))


def _single(variable: Variable) -> Attribute:
    return Attribute(variable.name, (variable,))
