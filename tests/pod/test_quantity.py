"""Quantities have the values that Kubernetes reads."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncpod.pod import ResourceRequirements, parse_quantity, quantity_text

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "value", "milli_value"),
    [
        ("0", 0, 0),
        ("1", 1, 1000),
        ("100m", 1, 100),
        ("0.5", 1, 500),
        (".5", 1, 500),
        ("5.", 5, 5000),
        ("+2", 2, 2000),
        ("-1500m", -2, -1500),
        ("1.1m", 1, 2),
        ("1n", 1, 1),
        ("0.1n", 1, 1),
        ("250u", 1, 1),
        ("2k", 2000, 2_000_000),
        ("129M", 129_000_000, 129_000_000_000),
        ("129e6", 129_000_000, 129_000_000_000),
        ("129E6", 129_000_000, 129_000_000_000),
        ("1e-3", 1, 1),
        ("1e+3", 1000, 1_000_000),
        ("1E", 10**18, 10**21),
        ("2G", 2 * 10**9, 2 * 10**12),
        ("2T", 2 * 10**12, 2 * 10**15),
        ("2P", 2 * 10**15, 2 * 10**18),
        ("1Ki", 1024, 1024_000),
        ("64Mi", 64 * 2**20, 64 * 2**20 * 1000),
        ("1.5Gi", 3 * 2**29, 3 * 2**29 * 1000),
        ("0.1Ki", 103, 102_400),
        ("1Ti", 2**40, 2**40 * 1000),
        ("1Pi", 2**50, 2**50 * 1000),
        ("7Ei", 7 * 2**60, 7 * 2**60 * 1000),
        ("9Ei", LARGEST, LARGEST * 1000),
        ("00012", 12, 12_000),
    ],
)
def test_a_quantity_is_read_exactly_and_rounded_away_from_zero(text: str, value: int, milli_value: int) -> None:
    quantity = parse_quantity(text)
    assert (quantity.value(), quantity.milli_value()) == (value, milli_value)


@pytest.mark.parametrize(
    "text",
    ["", ".", "+", "-", "Ki", "1 ", " 1", "1.1.1", "1K", "1KI", "1ki", "1mi", "1i", "1e", "1e1.5", "1ee3", "1e1001",
     "1e99999999999", "0x10", "1_000", "--1", "1+", "١", "1,5", "NaN", "1" * 5000],
)  # fmt: skip
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(must be a quantity|has an unknown suffix|has an exponent)"):
        parse_quantity(text)


SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1), "k": Fraction(10**3),
    "M": Fraction(10**6), "G": Fraction(10**9), "Ki": Fraction(2**10), "Mi": Fraction(2**20), "e2": Fraction(100),
    "E-3": Fraction(1, 1000),
}  # fmt: skip


@given(whole=st.integers(0, 10**12), decimals=st.text("0123456789", max_size=6), suffix=st.sampled_from(list(SUFFIXES)))
def test_a_quantity_is_its_digits_times_its_suffix_down_to_nano(whole: int, decimals: str, suffix: str) -> None:
    exact = Fraction(f"{whole}.{decimals or '0'}") * SUFFIXES[suffix]
    if suffix.endswith("i"):
        exact = min(exact, Fraction(LARGEST))
    read = parse_quantity(f"{whole}.{decimals}{suffix}").number
    assert 0 <= read - exact < Fraction(1, 10**9)
    assert (read * 10**9).denominator == 1


@given(whole=st.integers(0, 10**15), suffix=st.sampled_from(list(SUFFIXES)))
def test_the_sign_only_negates_the_quantity(whole: int, suffix: str) -> None:
    positive, negative = parse_quantity(f"{whole}{suffix}"), parse_quantity(f"-{whole}{suffix}")
    assert negative.number == -positive.number
    assert negative.value() == -positive.value() and negative.milli_value() == -positive.milli_value()


@given(st.text())
def test_any_text_is_parsed_as_a_quantity_or_refused(text: str) -> None:
    try:
        parse_quantity(text)
    except ValueError as error:
        assert str(error)


def test_whitespace_around_a_quantity_in_a_document_is_ignored() -> None:
    read = ResourceRequirements.model_validate({"limits": {"cpu": " 100m ", "memory": "\u00a01Gi"}})
    assert read.limits == {"cpu": "100m", "memory": "1Gi"}


def test_quantities_compare_by_number() -> None:
    assert parse_quantity("1") == parse_quantity("1000m")
    assert parse_quantity("1Gi") > parse_quantity("1G") > parse_quantity("999M")


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("0", "0"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000Ki", "1000Ki"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.1", "100m"),
        ("1000M", "1G"),
        ("1500k", "1500k"),
        ("1e3", "1e3"),
        ("129000e3", "129e6"),
        ("1000E", "1e21"),
        ("100Ei", str(LARGEST)),
        ("-2048", "-2048"),
        ("-2048Ki", "-2Mi"),
    ],
)
def test_a_quantity_is_formatted_as_by_kubernetes(typed: str, written: str) -> None:
    assert quantity_text(parse_quantity(typed), like=typed) == written


@given(st.integers(-(2**62), 2**62), st.sampled_from(["", "n", "m", "k", "E", "Ki", "Gi", "e3", "e-6"]))
def test_a_formatted_quantity_parses_back_equal_and_formats_alike(number: int, suffix: str) -> None:
    typed = f"{number}{suffix}"
    quantity = parse_quantity(typed)
    written = quantity_text(quantity, like=typed)
    assert parse_quantity(written) == quantity
    assert quantity_text(quantity, like=written) == written
