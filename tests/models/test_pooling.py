"""The pooling integrator: its laws, its indifference to order, and training at a few times."""

import pytest
import torch

from sooner.checks import MODEL_LAWS, check_model_law
from sooner.errors import InvalidArgument, UnknownName
from sooner.models.image.pooling import Pooling

EXAMPLES = [model.eval() for model in Pooling.examples()]
NAMES = [f"{type(model.stem).__name__} of {len(model.features)} axes" for model in EXAMPLES]
every_example = pytest.mark.parametrize("model", EXAMPLES, ids=NAMES)


def observations(model, batch=4, time=7, seed=0):
    return torch.randn(batch, time, *model.features, generator=torch.Generator().manual_seed(seed))


def seldom(batch=3, time=8):
    """Gray frames of which most pixels are 255, and a few show something."""
    generator = torch.Generator().manual_seed(5)
    shown = torch.rand(batch, time, 6, 6, generator=generator) < 0.1
    return torch.where(shown, torch.randint(0, 256, shown.shape, generator=generator), 255).to(torch.uint8)


@every_example
@pytest.mark.parametrize("law", MODEL_LAWS)
def test_it_obeys(model, law):
    check_model_law(model, law)


@every_example
def test_the_order_of_earlier_observations_changes_nothing(model):
    x = observations(model)
    shuffled = torch.cat([x[:, [3, 0, 4, 2, 1]], x[:, 5:]], dim=1)
    torch.testing.assert_close(model.scores(shuffled)[:, 4:], model.scores(x)[:, 4:], atol=1e-5, rtol=1e-5)


@every_example
def test_logits_at_some_times_are_those_of_forward(model):
    x, lengths = observations(model), torch.tensor([7, 3, 5, 1])
    times = torch.tensor([[5, 2, 7], [1, 3, 3], [4, 5, 1], [1, 1, 1]])
    everywhere = model(x, lengths).logits[:, 0]
    expected = everywhere.gather(1, (times - 1)[..., None].expand(-1, -1, model.classes))
    torch.testing.assert_close(model.logits_at(x, times, lengths), expected, atol=1e-5, rtol=1e-5)


@every_example
def test_logits_at_some_times_have_the_gradients_of_forward(model):
    x = observations(model)
    gradients = []
    for logits in (model(x).logits[:, 0, [1, 4]], model.logits_at(x, [2, 5])):
        model.zero_grad()
        logits.logsumexp(dim=-1).sum().backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    model.zero_grad()
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


@every_example
def test_what_comes_after_the_last_sampled_time_is_not_read(model):
    x, lengths = observations(model), torch.tensor([2, 2, 2, 2])
    broken = x.clone()
    broken[:, 2:] = torch.nan
    logits = model.logits_at(broken, [2], lengths)
    torch.testing.assert_close(logits, model.logits_at(x, [2]))
    logits.sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters())
    model.zero_grad()


def test_batch_norm_does_not_see_padding():
    x = torch.randn(3, 5, 6, 6, generator=torch.Generator().manual_seed(3))
    lengths = torch.tensor([5, 2, 1])
    statistics = []
    for padding in (0.0, 9.0):
        torch.manual_seed(0)
        model = Pooling((6, 6), 3, channels=4, widths=(8,))
        model(torch.where(torch.arange(5)[:, None, None] < lengths[:, None, None, None], x, padding), lengths)
        statistics.append([value for name, value in model.named_buffers() if "running" in name])
    torch.testing.assert_close(*statistics, rtol=0, atol=0)


def test_counting_the_commonest_level_gives_what_looking_up_every_pixel_gives():
    model = Pooling((6, 6), 3, stem="embedding", channels=4, widths=(8,))
    frames = seldom()[:, :, None]
    maps = model.stem(frames.flatten(0, 1)).unflatten(0, (3, 8))
    expected = torch.stack([maps[:, :5].amax(dim=1), maps[:, 5:].amax(dim=1)], dim=1)
    segments = torch.tensor([0, 0, 0, 0, 0, 1, 1, 1]).expand(3, -1)
    torch.testing.assert_close(model.stem.maxima(frames, segments, 2), expected)


@pytest.mark.parametrize("stem", ["embedding", "convolution"])
def test_eight_bit_frames_say_what_scaled_ones_say(stem):
    model = Pooling((6, 6), 3, stem=stem, channels=4, widths=(8,)).eval()
    frames = seldom()
    torch.testing.assert_close(model.scores(frames), model.scores(frames / 127.5 - 1), atol=1e-5, rtol=1e-5)


def test_the_gradient_reaches_the_levels_that_were_seen_and_no_other():
    model = Pooling((6, 6), 3, stem="embedding", channels=4, widths=(8,))
    frames = seldom().flatten(0, 1)[:, None]  # one frame in each series: the maximum hides none
    model.logits_at(frames, [1]).logsumexp(dim=-1).sum().backward()
    reached = model.stem.table.grad.abs().sum(dim=1) > 0
    assert reached.nonzero()[:, 0].tolist() == frames.unique().tolist()


def test_a_live_series_takes_one_map():
    assert Pooling((28, 28), 10, channels=16).bytes_per_stream() == 16 * 28 * 28 * 4


def test_it_learns_from_many_views_what_one_does_not_show():
    """Each frame shows a few of 36 pixels of one of two pictures; most are told apart only by several frames."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    pictures = torch.randint(0, 255, (2, 36), generator=generator)
    pictures[1, 6:] = pictures[0, 6:]

    def sample(series):
        labels = torch.randint(0, 2, (series,), generator=generator)
        shown = torch.rand(series, 12, 36, generator=generator) < 0.05
        return torch.where(shown, pictures[labels][:, None], 255).view(series, 12, 6, 6).to(torch.uint8), labels

    model = Pooling((6, 6), 2, stem="embedding", channels=4, widths=(8,))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(150):
        x, labels = sample(32)
        logits = model.logits_at(x, torch.randint(1, 13, (32, 3), generator=generator))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.repeat_interleave(3)).backward()
        optimizer.step()
    x, labels = sample(500)
    model.eval()
    with torch.no_grad():
        right = (model.scores(x).argmax(dim=-1) == labels[:, None]).float().mean(dim=0)
    assert right[0] < 0.75
    assert right[-1] > 0.93


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Pooling((6,), 3), "`features` must be (height, width) or (channels, height, width), got (6,). "),
        (lambda: Pooling((6, 6), 3, channels=0), "`channels` must be at least 1, got 0.0. "),
        (
            lambda: EXAMPLES[0](torch.zeros(2, 3, 5, 6)),
            "`observations` must be of shape (batch, time, 6, 6), got shape (2, 3, 5, 6). That is what the model reads.",
        ),
        (
            lambda: EXAMPLES[0](torch.full((2, 3, 6, 6), torch.nan)),
            "`observations` must be finite, got nan at series 0, time 0 (counted from 0). ",
        ),
        (
            lambda: EXAMPLES[0].step(EXAMPLES[0].init(2), torch.full((2, 6, 6), torch.nan)),
            "`observations` must be finite, got nan at series 0 (counted from 0). ",
        ),
        (
            lambda: EXAMPLES[0].logits_at(torch.zeros(2, 3, 6, 6), [[1], [3]], torch.tensor([3, 2])),
            "`times` must be in 1..2, the length of series 1, got 3. Times count observations from 1.",
        ),
        (
            lambda: EXAMPLES[0].logits_at(torch.zeros(2, 3, 6, 6), torch.ones(3, 1).long()),
            "`times` must be of shape (batch, times) = (2, ...), got shape (3, 1). Give at least one time for each series.",
        ),
        (
            lambda: EXAMPLES[0].logits_at(torch.zeros(2, 3, 6, 6), [1.5]),
            "`times` must be whole numbers, got dtype torch.float64. Convert them to int64.",
        ),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_an_unknown_stem_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'embedding'"):
        Pooling((6, 6), 3, stem="embed")
