"""The model against theorems and against the plain loop over attributes."""

from __future__ import annotations

import pytest
import torch

from benchmarks.naive import LoopVSAE
from conftest import PLAIN
from vsae.model.config import VSAEConfig
from vsae.model.proposals import DiagonalNormal
from vsae.model.vsae import VSAE
from vsae.training.objective import elbo


def seeded_elbo(model, batch, seed=5, **options):
    torch.manual_seed(seed)
    return elbo(model, batch, **options)


@pytest.mark.parametrize("variance", ["cell", "column", "fixed"])
@pytest.mark.parametrize("decoder_mask", ["reconstructed", "given"])
def test_blocks_equal_a_plain_loop_over_attributes(schema, batch, variance, decoder_mask):
    model = VSAE(schema, VSAEConfig(**PLAIN, variance=variance, decoder_mask=decoder_mask))
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # away from symmetric starting values
            parameter.add_((0.01 if "slow" in name else 0.1) * torch.randn_like(parameter))
    terms = seeded_elbo(model, batch).rows()
    torch.manual_seed(5)
    noise = torch.randn(1, batch.rows, len(schema), 3)[0]
    for name, fast, slow in zip(terms._fields, terms, LoopVSAE(model).bound(batch, noise), strict=True):
        torch.testing.assert_close(fast[0], slow, rtol=2e-4, atol=2e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_the_loop_trains_like_the_blocks(schema, batch):
    """Gradients agree too: of the bound with respect to a weight every attribute shares."""
    model = VSAE(schema, VSAEConfig(**PLAIN))
    loop = LoopVSAE(model)
    seeded_elbo(model, batch).total.sum().backward()
    torch.manual_seed(5)
    loop.bound(batch, torch.randn(1, batch.rows, len(schema), 3)[0]).total.sum().backward()
    torch.testing.assert_close(
        model.data_network.net.first.weight.grad[0].T, loop.trunk[0].weight.grad, rtol=1e-3, atol=1e-4
    )


def test_all_observed_makes_selective_attributive(schema, batch, plain_config):
    model = VSAE(schema, plain_config)
    q = model.propose(batch.with_mask(torch.ones_like(batch.mask)))
    assert torch.equal(q.selective.loc, q.attributive.loc)
    assert torch.equal(q.selective.log_scale, q.attributive.log_scale)


def test_nothing_observed_makes_selective_collective(schema, batch, plain_config):
    model = VSAE(schema, plain_config)
    q = model.propose(batch.with_mask(torch.zeros_like(batch.mask)))
    assert torch.equal(q.selective.loc, q.collective.loc)


def test_selection_is_attribute_by_attribute(schema, batch, plain_config):
    q = VSAE(schema, plain_config).propose(batch)
    for i in range(len(schema)):
        seen = batch.mask[0, :, i]
        assert torch.equal(q.selective.loc[0, seen, i], q.attributive.loc[0, seen, i])
        assert torch.equal(q.selective.loc[0, ~seen, i], q.collective.loc[0, ~seen, i])


@pytest.mark.parametrize("proposal", ["selective", "collective", "attributive"])
@pytest.mark.parametrize("fill", ["zero", "noise"])
def test_what_is_hidden_is_never_read(schema, batch, proposal, fill):
    """Other values in missing cells change nothing that is used."""
    model = VSAE(schema, VSAEConfig(**PLAIN, proposal=proposal, fill=fill))
    scrambled = dict(batch.values)
    for block in schema.blocks:
        missing = ~batch.mask[..., list(block.attributes)]
        x = batch.values[block.name]
        if x.dtype == torch.long:
            scrambled[block.name] = torch.where(missing, torch.tensor(block.sizes) - 1, x)
        else:
            scrambled[block.name] = torch.where(missing if x.dim() == 3 else missing[..., None], x + 1.0, x)
    other = type(batch)(scrambled, batch.mask)
    torch.manual_seed(1)
    q = model.propose(batch).selective
    torch.manual_seed(1)
    q_other = model.propose(other).selective
    assert torch.equal(q.loc, q_other.loc)
    for term, term_other in zip(seeded_elbo(model, batch), seeded_elbo(model, other), strict=True):
        torch.testing.assert_close(term, term_other)


def test_attributive_proposal_reads_only_its_own_attribute(schema, batch, plain_config):
    model = VSAE(schema, plain_config)
    before = model.propose(batch).attributive.loc
    changed = dict(batch.values)
    changed["categorical"] = (batch.values["categorical"] * 0) + torch.tensor([2, 0, 6])
    after = model.propose(type(batch)(changed, batch.mask)).attributive.loc
    touched = {schema.names.index(name) for name in ("colour", "single", "town")}
    for i in range(len(schema)):
        assert torch.equal(before[:, :, i], after[:, :, i]) or i in touched
    assert not torch.equal(before, after)


def test_members_are_independent(schema, batch):
    """Member e of an ensemble computes what a single model with its weights computes."""
    config = VSAEConfig(members=3, latent_dim=3)
    ensemble = VSAE(schema, config).eval()
    single = VSAE(schema, config.replace(members=1)).eval()
    q = ensemble.propose(batch).selective
    decoded = ensemble.decode(q.loc, None)
    for e in range(3):
        one = {name: value[e : e + 1] for name, value in ensemble.named_parameters()}
        single.load_state_dict(one, strict=False)  # buffers are the same in both
        q_single = single.propose(batch).selective
        torch.testing.assert_close(q.loc[e], q_single.loc[0], rtol=1e-4, atol=1e-5)
        alone = single.decode(q.loc[e : e + 1], None)
        torch.testing.assert_close(decoded.mask.logits[e], alone.mask.logits[0], rtol=1e-4, atol=1e-5)
        for name in decoded.data:
            torch.testing.assert_close(decoded.data[name].mean[e], alone.data[name].mean[0], rtol=1e-4, atol=1e-5)


def test_no_gradient_reaches_the_mask_network_without_mask_modelling(schema, batch):
    model = VSAE(schema, VSAEConfig(**PLAIN, mask_modelling=False))
    terms = elbo(model, batch)
    terms.total.sum().backward()
    assert not terms.mask.any()
    assert all(p.grad is None or not p.grad.any() for p in model.mask_network.parameters())
    assert all(p.grad is not None and p.grad.any() for p in model.data_network.net.parameters())


def test_given_mask_conditions_the_decoder(schema, batch, plain_config):
    model = VSAE(schema, plain_config)
    z = torch.randn(1, batch.rows, len(schema), 3)
    mean = model.decode(z, batch.mask).data["gaussian"].mean
    assert not torch.equal(mean, model.decode(z, ~batch.mask).data["gaussian"].mean)
    probabilities = model.decode(z, None).mask.mean
    torch.testing.assert_close(
        model.decode(z, probabilities).data["gaussian"].mean, model.decode(z, None).data["gaussian"].mean
    )


def test_kl_equals_torch_distributions():
    loc, log_scale = torch.randn(2, 5, 3, 4), 0.5 * torch.randn(2, 5, 3, 4)
    q, p = DiagonalNormal(loc, log_scale), DiagonalNormal(torch.randn_like(loc), 0.3 * torch.randn_like(loc))
    as_normal = lambda d: torch.distributions.Normal(d.loc, d.log_scale.exp())  # noqa: E731
    prior = torch.distributions.Normal(torch.zeros(()), torch.ones(()))
    kl = torch.distributions.kl_divergence
    torch.testing.assert_close(q.kl_to_prior(), kl(as_normal(q), prior).sum(-1))
    torch.testing.assert_close(q.kl_to(p), kl(as_normal(q), as_normal(p)).sum(-1))
    torch.testing.assert_close(q.log_prob(p.loc), as_normal(q).log_prob(p.loc).sum(-1))


def test_parameters_grow_linearly_with_attributes():
    from vsae.data.schema import Schema, categorical, real

    def size(m: int) -> int:
        schema = Schema([real(f"r{i}") for i in range(m)] + [categorical(f"c{i}", 5) for i in range(m)])
        return sum(p.numel() for p in VSAE(schema, VSAEConfig()).parameters())

    assert size(220) - size(160) == size(160) - size(100)  # below where the Gaussian imputation ends
