"""The same model as a plain loop over attributes: the reference for correctness, and for what blocks save.

Takes the weights of a `VSAE` with one member and plain networks, and computes the same bound with one `nn.Sequential`
per attribute, one-hot inputs and one `torch.distributions` object per variable. Slow on purpose, and easy to believe.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch import distributions as D
from torch.nn import functional as F

from vsae import VSAE
from vsae.data.batch import Batch
from vsae.data.schema import Attribute, Family, Variable
from vsae.model.likelihoods import CumulativeHead
from vsae.model.nets import GroupedLinear
from vsae.training.objective import Elbo


class LoopVSAE(nn.Module):
    """`LoopVSAE(model).bound(batch, noise)` equals `elbo(model, batch)` with that noise."""

    def __init__(self, model: VSAE) -> None:
        super().__init__()
        config = model.config
        assert (config.members, config.fill, config.features, config.proposal) == (1, "zero", "plain", "selective")
        assert not config.gaussian
        self.schema, self.config = model.schema, config
        self.attributive = nn.ModuleList(_attributive(model, i, attribute) for i, attribute in enumerate(self.schema))
        self.collective = _collective(model)
        self.mask_net = _plain(model.mask_network.net)
        self.trunk = nn.Sequential(*list(_plain(model.data_network.net))[:-1])
        self.heads = nn.ModuleDict(_heads(model))
        self.column_scale = nn.ParameterDict(_column_scales(model))
        self.cutpoints = _cutpoints(model)

    def bound(self, batch: Batch, noise: Tensor) -> Elbo:
        """batch (1, B, …), noise (B, M, L) → the four terms, (B,) each."""
        mask = batch.mask[0]
        x = {v.name: _values(self.schema.blocks, batch, v) for v in self.schema.variables}
        joint = torch.cat([_features(v, x[v.name]) * mask[:, i, None] for i, v in self._variables()], dim=1)
        collective = self.collective(torch.cat([joint, mask.float()], dim=1)).chunk(2, dim=1)

        latents, kl = [], torch.zeros(len(mask), device=mask.device)
        for i, attribute in enumerate(self.schema):
            own = torch.cat([_features(v, x[v.name]) for v in attribute.variables], dim=1)
            others = torch.cat([part.chunk(len(self.schema), dim=1)[i] for part in collective], dim=1)
            parameters = torch.where(mask[:, i, None], self.attributive[i](own), others)
            loc, log_scale = parameters.chunk(2, dim=1)
            log_scale = (log_scale + math.log(self.config.start_scale)).clamp(-7.0, 5.0)
            q = D.Normal(loc, log_scale.exp(), validate_args=False)
            latents.append(q.loc + q.scale * noise[:, i])
            kl = kl + D.kl_divergence(q, D.Normal(noise.new_zeros(()), noise.new_ones(()))).sum(1)

        context = torch.cat(latents, dim=1)
        logits = self.mask_net(context)
        conditioning = mask.float() if self.config.decoder_mask == "given" else torch.sigmoid(logits)
        hidden = self.trunk(torch.cat([context, conditioning], dim=1))
        observed, log_mask = torch.zeros(len(mask), device=mask.device), torch.zeros(len(mask), device=mask.device)
        for i, v in self._variables():
            raw = self.heads[f"h_{v.name}"](hidden)
            observed = observed + torch.where(mask[:, i], self._log_prob(v, raw, x[v.name]), 0.0)
        for i in range(len(self.schema)):
            log_mask = log_mask + D.Bernoulli(logits=logits[:, i]).log_prob(mask[:, i].float())
        return Elbo(observed, torch.zeros_like(observed), log_mask, kl)

    def _variables(self) -> list[tuple[int, Variable]]:
        return [(i, v) for i, attribute in enumerate(self.schema) for v in attribute.variables]

    def _log_prob(self, v: Variable, raw: Tensor, x: Tensor) -> Tensor:
        if v.family is Family.BERNOULLI:
            return D.Bernoulli(logits=raw[:, 0]).log_prob(x.float())
        if v.family is Family.CATEGORICAL:
            return D.Categorical(logits=raw).log_prob(x)
        if v.family is Family.CUMULATIVE:
            edges = (self.cutpoints[v.name] - raw[:, :1]) * torch.exp(-raw[:, 1:].clamp(-3.0, 3.0))
            below = torch.cat([raw.new_zeros(len(raw), 1), torch.sigmoid(edges), raw.new_ones(len(raw), 1)], dim=1)
            return torch.log(below.diff(dim=1).gather(1, x[:, None])[:, 0])
        log_scale = self.column_scale[f"s_{v.name}"]
        loc = raw[:, : v.size]
        if raw.shape[1] > v.size:
            log_scale = log_scale + raw[:, v.size :]
        normal = D.Normal(loc, log_scale.clamp(-5.0, 3.0).exp().expand_as(loc), validate_args=False)
        if v.family is Family.INTERVAL:  # in float64: a difference of two numbers near one
            exact = D.Normal(normal.loc.double(), normal.scale.double(), validate_args=False)
            lower, upper = x[:, 1:2], x[:, 2:3]
            mirrored = torch.log(exact.cdf(2 * exact.loc - lower) - exact.cdf(2 * exact.loc - upper))
            direct = torch.log(exact.cdf(upper) - exact.cdf(lower))
            return torch.where(lower > exact.loc, mirrored, direct)[:, 0].float()
        return normal.log_prob(x if v.family is Family.VECTOR else x[:, None]).sum(1)


def _values(blocks: tuple, batch: Batch, v: Variable) -> Tensor:
    block = next(b for b in blocks if v in b.variables)
    return batch.values[block.name][0][:, block.variables.index(v)]


def _features(v: Variable, x: Tensor) -> Tensor:
    """(B, …) → (B, features): numbers as they are, levels one-hot, vectors as they are."""
    if v.family in (Family.BERNOULLI, Family.CATEGORICAL, Family.CUMULATIVE):
        return F.one_hot(x, v.size).float()
    if v.family is Family.INTERVAL:
        return x[:, :1]
    return x if v.family is Family.VECTOR else x[:, None]


def _linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """nn.Linear from a weight (n_in, n_out) and a bias (n_out,)."""
    layer = nn.Linear(*weight.shape)
    layer.weight.data.copy_(weight.T)
    layer.bias.data.copy_(bias)
    return layer


def _of_group(layer: nn.Module, *group: int) -> nn.Module:
    if isinstance(layer, GroupedLinear):
        return _linear(layer.weight[group].data, layer.bias[group][0].data)
    return layer


def _plain(net: nn.Module) -> nn.Sequential:
    """An MLP of one member as an nn.Sequential."""
    layers = [net.first, *net.hidden.layers, net.last]  # type: ignore[misc]
    return nn.Sequential(*(_of_group(layer, 0) for layer in layers))


def _input_rows(model_input: nn.Module, v: Variable) -> tuple[Tensor, Tensor]:
    """The rows (features, width) that a variable has in `SeparateInput`, and its bias."""
    position = 0
    for block in model_input.number_blocks:  # type: ignore[union-attr]
        if v in block.variables:
            layer, at = model_input.number_map, position + block.variables.index(v)
            return layer.weight[0, at].data, layer.bias[0, at, 0].data  # type: ignore
        position += len(block)
    levels = 0
    for block in model_input.code_blocks:  # type: ignore[union-attr]
        for other in block.variables:
            if other == v:
                rows = model_input.table[0, levels : levels + v.size].data  # type: ignore
                return rows, torch.zeros(rows.shape[1])
            levels += other.size
    for block, layer in zip(model_input.vector_blocks, model_input.vector_maps, strict=True):  # type: ignore
        if v in block.variables:
            at = block.variables.index(v)
            return layer.weight[0, at].data, layer.bias[0, at, 0].data
    raise KeyError(v.name)


def _attributive(model: VSAE, i: int, attribute: Attribute) -> nn.Sequential:
    proposal = model.attributive
    rows, biases = zip(*(_input_rows(proposal.input, v) for v in attribute.variables), strict=True)
    first = _linear(torch.cat(rows), torch.stack(biases).sum(0))
    rest = [*getattr(proposal.hidden, "layers", []), proposal.last]
    return nn.Sequential(first, *(_of_group(layer, 0, i) for layer in rest))


def _collective(model: VSAE) -> nn.Sequential:
    """One-hot levels take the rows of the embedding table; the rest, those of the dense layer."""
    proposal = model.collective
    joint = proposal.input
    dense, M = joint.dense.weight[0].data, len(model.schema)
    numbers = [v for b in joint.number_blocks for v in b.variables]
    codes = [v for b in joint.code_blocks for v in b.variables]
    vectors = [v for b in joint.vector_blocks for v in b.variables]
    rows, at, level = {}, M, 0
    for v in [*numbers, *vectors]:
        rows[v.name] = dense[at : at + v.size]
        at += v.size
    for v in codes:
        assert joint.table is not None
        rows[v.name] = joint.table[0, level : level + v.size].data
        level += v.size
    weight = torch.cat([*(rows[v.name] for v in model.schema.variables), dense[:M]])
    first = _linear(weight, joint.dense.bias[0, 0].data)
    return nn.Sequential(first, *(_of_group(layer, 0) for layer in [*proposal.hidden.layers, proposal.last]))


def _heads(model: VSAE) -> dict[str, nn.Module]:
    """Cut the one last layer into a linear layer per variable."""
    last = model.data_network.net.last
    weight, bias = last.weight[0].data, last.bias[0, 0].data
    heads: dict[str, nn.Module] = {}
    start = 0
    for block, width in zip(model.schema.blocks, model.data_network.splits, strict=True):
        total = sum(block.sizes) if block.family is Family.CATEGORICAL else len(block) * block.width
        at = 0
        for v in block.variables:
            size = v.size if block.family in (Family.CATEGORICAL, Family.VECTOR) else 1
            columns = torch.cat([torch.arange(at, at + size) + total * k for k in range(width // total)]) + start
            heads[f"h_{v.name}"] = _linear(weight[:, columns], bias[columns])
            at += size
        start += width
    return heads


def _column_scales(model: VSAE) -> dict[str, nn.Parameter]:
    scales: dict[str, nn.Parameter] = {}
    for block in model.schema.blocks:
        if block.family in (Family.GAUSSIAN, Family.INTERVAL, Family.VECTOR):
            column = model.data_network.heads[block.name].column_log_scale[0, 0]
            for v, scale in zip(block.variables, column.split(block.width), strict=True):
                scales[f"s_{v.name}"] = nn.Parameter(scale.detach().clone())
    return scales


def _cutpoints(model: VSAE) -> dict[str, Tensor]:
    cutpoints: dict[str, Tensor] = {}
    for block in model.schema.blocks:
        if block.family is Family.CUMULATIVE:
            head = model.data_network.heads[block.name]
            assert isinstance(head, CumulativeHead)
            for j, v in enumerate(block.variables):
                first, gaps = head.first[0, 0, j].detach(), head.gaps[0, 0, j].detach()
                steps = [first, *(F.softplus(gap)[None] for gap in gaps[: max(v.size - 2, 0)])]
                cutpoints[v.name] = torch.cat(steps).cumsum(0)[: v.size - 1]
    return cutpoints
