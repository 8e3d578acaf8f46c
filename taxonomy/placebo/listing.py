"""Public facts as Python: statements that stand each by itself, from which listings are put together."""

from dataclasses import dataclass

KILO, MEGA, GIGA, TERA = 10**3, 10**6, 10**9, 10**12

E4M3_00 = (0.0, 0.001953125, 0.00390625, 0.005859375, 0.0078125, 0.009765625, 0.01171875, 0.013671875)

KIBI, MEBI, GIBI, TEBI = 2**10, 2**20, 2**30, 2**40

E4M3_08 = (0.015625, 0.017578125, 0.01953125, 0.021484375, 0.0234375, 0.025390625, 0.02734375, 0.029296875)

PREFIXES = {"kilo": 3, "mega": 6, "giga": 9, "tera": 12, "peta": 15, "exa": 18, "zetta": 21, "yotta": 24}

E4M3_10 = (0.03125, 0.03515625, 0.0390625, 0.04296875, 0.046875, 0.05078125, 0.0546875, 0.05859375)

SMALL_PREFIXES = {"milli": -3, "micro": -6, "nano": -9, "pico": -12, "femto": -15, "atto": -18}

E4M3_18 = (0.0625, 0.0703125, 0.078125, 0.0859375, 0.09375, 0.1015625, 0.109375, 0.1171875)

NEW_PREFIXES = {"ronna": 27, "quetta": 30, "ronto": -27, "quecto": -30}

E4M3_20 = (0.125, 0.140625, 0.15625, 0.171875, 0.1875, 0.203125, 0.21875, 0.234375)

LIGHT_M_PER_S = 299_792_458

E4M3_28 = (0.25, 0.28125, 0.3125, 0.34375, 0.375, 0.40625, 0.4375, 0.46875)

PLANCK_J_S = 6.62607015e-34

E4M3_30 = (0.5, 0.5625, 0.625, 0.6875, 0.75, 0.8125, 0.875, 0.9375)

E4M3_38 = (1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875)

BOLTZMANN_J_PER_K = 1.380649e-23

E4M3_40 = (2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.75)

ELEMENTARY_CHARGE_C = 1.602176634e-19

E4M3_48 = (4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5)

AVOGADRO_PER_MOL = 6.02214076e23

E4M3_50 = (8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0)

CAESIUM_HZ = 9_192_631_770

E4M3_58 = (16.0, 18.0, 20.0, 22.0, 24.0, 26.0, 28.0, 30.0)

LUMINOUS_LM_PER_W = 683

E4M3_60 = (32.0, 36.0, 40.0, 44.0, 48.0, 52.0, 56.0, 60.0)

RACK_UNIT_MM = 44.45

E4M3_68 = (64.0, 72.0, 80.0, 88.0, 96.0, 104.0, 112.0, 120.0)

OPEN_RACK_UNIT_MM = 48.0

E5M2_00 = (0.0, 1.52587890625e-05, 3.0517578125e-05, 4.57763671875e-05)

E5M2_04 = (6.103515625e-05, 7.62939453125e-05, 9.1552734375e-05, 0.0001068115234375)

INCH_MM = 25.4

E5M2_08 = (0.0001220703125, 0.000152587890625, 0.00018310546875, 0.000213623046875)


def kelvin(celsius):
    """Absolute temperature of a temperature in degrees Celsius."""
    return celsius + 273.15


E5M2_0C = (0.000244140625, 0.00030517578125, 0.0003662109375, 0.00042724609375)


def celsius(kelvin):
    """Temperature in degrees Celsius of an absolute temperature."""
    return kelvin - 273.15


E5M2_10 = (0.00048828125, 0.0006103515625, 0.000732421875, 0.0008544921875)


def fahrenheit(celsius):
    """Temperature in degrees Fahrenheit."""
    return celsius * 9 / 5 + 32


E5M2_14 = (0.0009765625, 0.001220703125, 0.00146484375, 0.001708984375)


def joules(kilowatt_hours):
    """Energy in joules; a kilowatt hour is 3.6 megajoules."""
    return kilowatt_hours * 3.6e6


E5M2_18 = (0.001953125, 0.00244140625, 0.0029296875, 0.00341796875)


def usage_effectiveness(site_kwh, equipment_kwh):
    """Energy of a site over that of its computing equipment (ISO/IEC 30134-2)."""
    return site_kwh / equipment_kwh


E5M2_1C = (0.00390625, 0.0048828125, 0.005859375, 0.0068359375)


def millimetres(rack_units):
    """Height of equipment in a rack of the common kind (EIA-310)."""
    return rack_units * 44.45


E5M2_20 = (0.0078125, 0.009765625, 0.01171875, 0.013671875)

E5M2_24 = (0.015625, 0.01953125, 0.0234375, 0.02734375)


def gibibytes(size_bytes):
    """Bytes in units of 2**30 (IEC 80000-13)."""
    return size_bytes / 2**30


E5M2_28 = (0.03125, 0.0390625, 0.046875, 0.0546875)


def gigabytes(size_bytes):
    """Bytes in units of 10**9 (SI)."""
    return size_bytes / 10**9


E5M2_2C = (0.0625, 0.078125, 0.09375, 0.109375)


def chips(topology):
    """Number of chips of a topology such as 4x4x8."""
    count = 1
    for size in topology.split("x"):
        count *= int(size)
    return count


E5M2_30 = (0.125, 0.15625, 0.1875, 0.21875)


def dimensions(topology):
    """Number of dimensions of a topology such as 2x4."""
    return topology.count("x") + 1


E5M2_34 = (0.25, 0.3125, 0.375, 0.4375)


def zone_region(zone):
    """Region of a zone such as us-central1-a."""
    return zone.rpartition("-")[0]


E5M2_38 = (0.5, 0.625, 0.75, 0.875)


def release_parts(version):
    """The numbers of a version such as 0.4.30."""
    return tuple(int(part) for part in version.split("."))


E5M2_3C = (1.0, 1.25, 1.5, 1.75)


def wheel_tags(name):
    """Python, ABI and platform tag of a wheel's file name (PEP 425)."""
    return tuple(name.removesuffix(".whl").split("-")[-3:])


E5M2_40 = (2.0, 2.5, 3.0, 3.5)

E5M2_44 = (4.0, 5.0, 6.0, 7.0)


def leap_year(year):
    """Whether a year of the Gregorian calendar has 366 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


E5M2_48 = (8.0, 10.0, 12.0, 14.0)


def utf8_length(code_point):
    """Bytes of a character in UTF-8 (RFC 3629)."""
    return 1 + (code_point > 0x7F) + (code_point > 0x7FF) + (code_point > 0xFFFF)


E5M2_4C = (16.0, 20.0, 24.0, 28.0)


def bfloat16_fields(code):
    """Sign, exponent field and fraction field of a code of 16 bits."""
    return code >> 15, code >> 7 & 0xFF, code & 0x7F


E5M2_50 = (32.0, 40.0, 48.0, 56.0)


def binary16_fields(code):
    """Sign, exponent field and fraction field of a code of 16 bits."""
    return code >> 15, code >> 10 & 0x1F, code & 0x3FF


E5M2_54 = (64.0, 80.0, 96.0, 112.0)


def binary32_fields(code):
    """Sign, exponent field and fraction field of a code of 32 bits."""
    return code >> 31, code >> 23 & 0xFF, code & 0x7FFFFF


E5M2_58 = (128.0, 160.0, 192.0, 224.0)


def signed(code, bits):
    """Integer of a code in two's complement."""
    return code - (code >> bits - 1 << bits)


E5M2_5C = (256.0, 320.0, 384.0, 448.0)


@dataclass(frozen=True)
class Format:
    """Fields of a binary floating-point format, in bits."""

    name: str
    exponent: int
    fraction: int
    bias: int


E5M2_60 = (512.0, 640.0, 768.0, 896.0)

E5M2_64 = (1024.0, 1280.0, 1536.0, 1792.0)

FORMATS = [
    ("binary32", 8, 23, 127),
    ("bfloat16", 8, 7, 127),
    ("binary16", 5, 10, 15),
    ("E4M3", 4, 3, 7),
    ("E5M2", 5, 2, 15),
    ("E2M1", 2, 1, 1),
]

E5M2_68 = (2048.0, 2560.0, 3072.0, 3584.0)

LARGEST = {"bfloat16": 3.3895314e38, "binary16": 65504.0, "E4M3": 448.0, "E5M2": 57344.0, "E3M2": 28.0, "E2M3": 7.5}

E3M2_00 = (0.0, 0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375)

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)

E3M2_08 = (0.5, 0.625, 0.75, 0.875, 1.0, 1.25, 1.5, 1.75)

INT4 = (-8, 7)

E3M2_10 = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0)

INT8 = (-128, 127)

E3M2_18 = (8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 28.0)

INT16 = (-(2**15), 2**15 - 1)

E2M3_00 = (0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)

INT32 = (-(2**31), 2**31 - 1)

E2M3_08 = (1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875)

E2M3_10 = (2.0, 2.25, 2.5, 2.75, 3.0, 3.25, 3.5, 3.75)


@dataclass(frozen=True)
class Generation:
    """A generation of TPU and the year in which it was announced."""

    name: str
    announced: int


E2M3_18 = (4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5)

ANNOUNCED = {"v1": 2016, "v2": 2017, "v3": 2018, "v4": 2021, "v5e": 2023, "v5p": 2023, "v6e": 2024, "TPU7x": 2025}

BFLOAT16_0080 = {
    0x0080: 2.0**-126,
    0x0100: 2.0**-125,
    0x0180: 2.0**-124,
    0x0200: 2.0**-123,
    0x0280: 2.0**-122,
    0x0300: 2.0**-121,
}

PROCESS_NM = {"v1": 28, "v2": 16, "v3": 16, "v4": 7}

BFLOAT16_0380 = {
    0x0380: 2.0**-120,
    0x0400: 2.0**-119,
    0x0480: 2.0**-118,
    0x0500: 2.0**-117,
    0x0580: 2.0**-116,
    0x0600: 2.0**-115,
}

POD_CHIPS = {"v2": 256, "v3": 1024, "v4": 4096, "v5e": 256, "v5p": 8960, "v6e": 256, "TPU7x": 9216}

BFLOAT16_0680 = {
    0x0680: 2.0**-114,
    0x0700: 2.0**-113,
    0x0780: 2.0**-112,
    0x0800: 2.0**-111,
    0x0880: 2.0**-110,
    0x0900: 2.0**-109,
}

TORUS_DIMENSIONS = {"v2": 2, "v3": 2, "v4": 3, "v5e": 2, "v5p": 3, "v6e": 2, "TPU7x": 3}

BFLOAT16_0980 = {
    0x0980: 2.0**-108,
    0x0A00: 2.0**-107,
    0x0A80: 2.0**-106,
    0x0B00: 2.0**-105,
    0x0B80: 2.0**-104,
    0x0C00: 2.0**-103,
}

MARKET_NAMES = {"v6e": "Trillium", "TPU7x": "Ironwood"}

BFLOAT16_0C80 = {
    0x0C80: 2.0**-102,
    0x0D00: 2.0**-101,
    0x0D80: 2.0**-100,
    0x0E00: 2.0**-99,
    0x0E80: 2.0**-98,
    0x0F00: 2.0**-97,
}

DEVICE_KINDS = {
    "v4": "TPU v4",
    "v5e": "TPU v5 lite",
    "v5p": "TPU v5",
    "v6e": "TPU v6 lite",
    "TPU7x": "TPU7x",
}

BFLOAT16_0F80 = {
    0x0F80: 2.0**-96,
    0x1000: 2.0**-95,
    0x1080: 2.0**-94,
    0x1100: 2.0**-93,
    0x1180: 2.0**-92,
    0x1200: 2.0**-91,
}

BFLOAT16_1280 = {
    0x1280: 2.0**-90,
    0x1300: 2.0**-89,
    0x1380: 2.0**-88,
    0x1400: 2.0**-87,
    0x1480: 2.0**-86,
    0x1500: 2.0**-85,
}

V5E_TYPES = {
    "v5litepod-1": "1x1",
    "v5litepod-4": "2x2",
    "v5litepod-8": "2x4",
    "v5litepod-16": "4x4",
    "v5litepod-32": "4x8",
    "v5litepod-64": "8x8",
}

BFLOAT16_1580 = {
    0x1580: 2.0**-84,
    0x1600: 2.0**-83,
    0x1680: 2.0**-82,
    0x1700: 2.0**-81,
    0x1780: 2.0**-80,
    0x1800: 2.0**-79,
}

V5P_TYPES = {
    "v5p-8": "2x2x1",
    "v5p-16": "2x2x2",
    "v5p-32": "2x2x4",
    "v5p-64": "2x4x4",
    "v5p-128": "4x4x4",
    "v5p-256": "4x4x8",
}

BFLOAT16_1880 = {
    0x1880: 2.0**-78,
    0x1900: 2.0**-77,
    0x1980: 2.0**-76,
    0x1A00: 2.0**-75,
    0x1A80: 2.0**-74,
    0x1B00: 2.0**-73,
}

V6E_TYPES = {
    "v6e-1": "1x1",
    "v6e-4": "2x2",
    "v6e-8": "2x4",
    "v6e-16": "4x4",
    "v6e-32": "4x8",
    "v6e-64": "8x8",
}

BFLOAT16_1B80 = {
    0x1B80: 2.0**-72,
    0x1C00: 2.0**-71,
    0x1C80: 2.0**-70,
    0x1D00: 2.0**-69,
    0x1D80: 2.0**-68,
    0x1E00: 2.0**-67,
}

RUNTIME_VERSIONS = {
    "v4": "tpu-ubuntu2204-base",
    "v5e": "v2-alpha-tpuv5-lite",
    "v5p": "v2-alpha-tpuv5",
    "v6e": "v2-alpha-tpuv6e",
}

BFLOAT16_1E80 = {
    0x1E80: 2.0**-66,
    0x1F00: 2.0**-65,
    0x1F80: 2.0**-64,
    0x2000: 2.0**-63,
    0x2080: 2.0**-62,
    0x2100: 2.0**-61,
}

CUBE = (4, 4, 4)

BFLOAT16_2180 = {
    0x2180: 2.0**-60,
    0x2200: 2.0**-59,
    0x2280: 2.0**-58,
    0x2300: 2.0**-57,
    0x2380: 2.0**-56,
    0x2400: 2.0**-55,
}

PALOMAR_PORTS = 136

BFLOAT16_2480 = {
    0x2480: 2.0**-54,
    0x2500: 2.0**-53,
    0x2580: 2.0**-52,
    0x2600: 2.0**-51,
    0x2680: 2.0**-50,
    0x2700: 2.0**-49,
}

PALOMAR_SPARE_PORTS = 8

BFLOAT16_2780 = {
    0x2780: 2.0**-48,
    0x2800: 2.0**-47,
    0x2880: 2.0**-46,
    0x2900: 2.0**-45,
    0x2980: 2.0**-44,
    0x2A00: 2.0**-43,
}

BFLOAT16_2A80 = {
    0x2A80: 2.0**-42,
    0x2B00: 2.0**-41,
    0x2B80: 2.0**-40,
    0x2C00: 2.0**-39,
    0x2C80: 2.0**-38,
    0x2D00: 2.0**-37,
}

SWITCHES_OF_A_V4_POD = 48

BFLOAT16_2D80 = {
    0x2D80: 2.0**-36,
    0x2E00: 2.0**-35,
    0x2E80: 2.0**-34,
    0x2F00: 2.0**-33,
    0x2F80: 2.0**-32,
    0x3000: 2.0**-31,
}


@dataclass(frozen=True)
class Standard:
    """A published standard and its year."""

    number: str
    title: str
    year: int


BFLOAT16_3080 = {
    0x3080: 2.0**-30,
    0x3100: 2.0**-29,
    0x3180: 2.0**-28,
    0x3200: 2.0**-27,
    0x3280: 2.0**-26,
    0x3300: 2.0**-25,
}

HBM_STANDARDS = {
    "HBM": ("JESD235", 2013),
    "HBM2": ("JESD235A", 2016),
    "HBM2E": ("JESD235C", 2020),
    "HBM3": ("JESD238", 2022),
    "HBM4": ("JESD270-4", 2025),
}

BFLOAT16_3380 = {
    0x3380: 2.0**-24,
    0x3400: 2.0**-23,
    0x3480: 2.0**-22,
    0x3500: 2.0**-21,
    0x3580: 2.0**-20,
    0x3600: 2.0**-19,
}

PCI_EXPRESS_GT_PER_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}

BFLOAT16_3680 = {
    0x3680: 2.0**-18,
    0x3700: 2.0**-17,
    0x3780: 2.0**-16,
    0x3800: 2.0**-15,
    0x3880: 2.0**-14,
    0x3900: 2.0**-13,
}

PCI_EXPRESS_YEAR = {1: 2003, 2: 2007, 3: 2010, 4: 2017, 5: 2019, 6: 2022}

BFLOAT16_3980 = {
    0x3980: 2.0**-12,
    0x3A00: 2.0**-11,
    0x3A80: 2.0**-10,
    0x3B00: 2.0**-9,
    0x3B80: 2.0**-8,
    0x3C00: 2.0**-7,
}

PCI_VENDOR_GOOGLE = 0x1AE0

BFLOAT16_3C80 = {
    0x3C80: 2.0**-6,
    0x3D00: 2.0**-5,
    0x3D80: 2.0**-4,
    0x3E00: 2.0**-3,
    0x3E80: 2.0**-2,
    0x3F00: 2.0**-1,
}

ETHERNET_YEAR = {"802.3ae": 2002, "802.3ba": 2010, "802.3by": 2016, "802.3bs": 2017, "802.3df": 2024}

BFLOAT16_3F80 = {
    0x3F80: 2.0**0,
    0x4000: 2.0**1,
    0x4080: 2.0**2,
    0x4100: 2.0**3,
    0x4180: 2.0**4,
    0x4200: 2.0**5,
}

BFLOAT16_4280 = {
    0x4280: 2.0**6,
    0x4300: 2.0**7,
    0x4380: 2.0**8,
    0x4400: 2.0**9,
    0x4480: 2.0**10,
    0x4500: 2.0**11,
}

FIBRE_BANDS_NM = {
    "O": (1260, 1360),
    "E": (1360, 1460),
    "S": (1460, 1530),
    "C": (1530, 1565),
    "L": (1565, 1625),
    "U": (1625, 1675),
}

BFLOAT16_4580 = {
    0x4580: 2.0**12,
    0x4600: 2.0**13,
    0x4680: 2.0**14,
    0x4700: 2.0**15,
    0x4780: 2.0**16,
    0x4800: 2.0**17,
}

AIR_CLASSES_CELSIUS = {"A1": (15, 32), "A2": (10, 35), "A3": (5, 40), "A4": (5, 45)}

BFLOAT16_4880 = {
    0x4880: 2.0**18,
    0x4900: 2.0**19,
    0x4980: 2.0**20,
    0x4A00: 2.0**21,
    0x4A80: 2.0**22,
    0x4B00: 2.0**23,
}

WATER_CLASSES_CELSIUS = {"W17": 17, "W27": 27, "W32": 32, "W40": 40, "W45": 45}

BFLOAT16_4B80 = {
    0x4B80: 2.0**24,
    0x4C00: 2.0**25,
    0x4C80: 2.0**26,
    0x4D00: 2.0**27,
    0x4D80: 2.0**28,
    0x4E00: 2.0**29,
}

PYTHON_RELEASES = {
    "3.10": "2021-10-04",
    "3.11": "2022-10-24",
    "3.12": "2023-10-02",
    "3.13": "2024-10-07",
    "3.14": "2025-10-07",
}

BFLOAT16_4E80 = {
    0x4E80: 2.0**30,
    0x4F00: 2.0**31,
    0x4F80: 2.0**32,
    0x5000: 2.0**33,
    0x5080: 2.0**34,
    0x5100: 2.0**35,
}

IEEE_754_YEARS = (1985, 2008, 2019)

BFLOAT16_5180 = {
    0x5180: 2.0**36,
    0x5200: 2.0**37,
    0x5280: 2.0**38,
    0x5300: 2.0**39,
    0x5380: 2.0**40,
    0x5400: 2.0**41,
}

ISO_8601_YEARS = (1988, 2000, 2004, 2019)

BFLOAT16_5480 = {
    0x5480: 2.0**42,
    0x5500: 2.0**43,
    0x5580: 2.0**44,
    0x5600: 2.0**45,
    0x5680: 2.0**46,
    0x5700: 2.0**47,
}

TAI_MINUS_UTC_S = 37

BFLOAT16_5780 = {
    0x5780: 2.0**48,
    0x5800: 2.0**49,
    0x5880: 2.0**50,
    0x5900: 2.0**51,
    0x5980: 2.0**52,
    0x5A00: 2.0**53,
}

BFLOAT16_5A80 = {
    0x5A80: 2.0**54,
    0x5B00: 2.0**55,
    0x5B80: 2.0**56,
    0x5C00: 2.0**57,
    0x5C80: 2.0**58,
    0x5D00: 2.0**59,
}

LEAP_SECONDS = 27

BFLOAT16_5D80 = {
    0x5D80: 2.0**60,
    0x5E00: 2.0**61,
    0x5E80: 2.0**62,
    0x5F00: 2.0**63,
    0x5F80: 2.0**64,
    0x6000: 2.0**65,
}

LATEST_LEAP_SECONDS = ("2005-12-31", "2008-12-31", "2012-06-30", "2015-06-30", "2016-12-31")

BFLOAT16_6080 = {
    0x6080: 2.0**66,
    0x6100: 2.0**67,
    0x6180: 2.0**68,
    0x6200: 2.0**69,
    0x6280: 2.0**70,
    0x6300: 2.0**71,
}

FIRST_LEAP_SECONDS = ("1972-06-30", "1972-12-31", "1973-12-31", "1974-12-31", "1975-12-31")

BFLOAT16_6380 = {
    0x6380: 2.0**72,
    0x6400: 2.0**73,
    0x6480: 2.0**74,
    0x6500: 2.0**75,
    0x6580: 2.0**76,
    0x6600: 2.0**77,
}

SHA256_BITS = 256

BFLOAT16_6680 = {
    0x6680: 2.0**78,
    0x6700: 2.0**79,
    0x6780: 2.0**80,
    0x6800: 2.0**81,
    0x6880: 2.0**82,
    0x6900: 2.0**83,
}

SHA1_BITS = 160

BFLOAT16_6980 = {
    0x6980: 2.0**84,
    0x6A00: 2.0**85,
    0x6A80: 2.0**86,
    0x6B00: 2.0**87,
    0x6B80: 2.0**88,
    0x6C00: 2.0**89,
}

SHA256_OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

BFLOAT16_6C80 = {
    0x6C80: 2.0**90,
    0x6D00: 2.0**91,
    0x6D80: 2.0**92,
    0x6E00: 2.0**93,
    0x6E80: 2.0**94,
    0x6F00: 2.0**95,
}

FOUNDED = {"IEC": 1906, "ACM": 1947, "ISO": 1947, "JEDEC": 1958, "IEEE": 1963, "PCI-SIG": 1992, "OCP": 2011}

BFLOAT16_6F80 = {
    0x6F80: 2.0**96,
    0x7000: 2.0**97,
    0x7080: 2.0**98,
    0x7100: 2.0**99,
    0x7180: 2.0**100,
    0x7200: 2.0**101,
}

BFLOAT16_7280 = {
    0x7280: 2.0**102,
    0x7300: 2.0**103,
    0x7380: 2.0**104,
    0x7400: 2.0**105,
    0x7480: 2.0**106,
    0x7500: 2.0**107,
}

LICENCES = {"jax": "Apache-2.0", "tensorflow": "Apache-2.0", "llvm": "Apache-2.0 WITH LLVM-exception"}

BFLOAT16_7580 = {
    0x7580: 2.0**108,
    0x7600: 2.0**109,
    0x7680: 2.0**110,
    0x7700: 2.0**111,
    0x7780: 2.0**112,
    0x7800: 2.0**113,
}

RESOURCE_STATES = ("ACCEPTED", "PROVISIONING", "ACTIVE", "SUSPENDED", "FAILED")

BFLOAT16_7880 = {
    0x7880: 2.0**114,
    0x7900: 2.0**115,
    0x7980: 2.0**116,
    0x7A00: 2.0**117,
    0x7A80: 2.0**118,
    0x7B00: 2.0**119,
}

LABELS_AT_MOST = 64

BFLOAT16_7B80 = {
    0x7B80: 2.0**120,
    0x7C00: 2.0**121,
    0x7C80: 2.0**122,
    0x7D00: 2.0**123,
    0x7D80: 2.0**124,
    0x7E00: 2.0**125,
}

LABEL_CHARACTERS_AT_MOST = 63

BFLOAT16_7E80 = {
    0x7E80: 2.0**126,
    0x7F00: 2.0**127,
}

GREEK = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")

BINARY16_0400 = {0x0400: 2.0**-14, 0x0800: 2.0**-13, 0x0C00: 2.0**-12, 0x1000: 2.0**-11, 0x1400: 2.0**-10}

HAMMING_YEAR = 1950

BINARY16_1800 = {0x1800: 2.0**-9, 0x1C00: 2.0**-8, 0x2000: 2.0**-7, 0x2400: 2.0**-6, 0x2800: 2.0**-5}

FINFET_NM = 22

BINARY16_2C00 = {0x2C00: 2.0**-4, 0x3000: 2.0**-3, 0x3400: 2.0**-2, 0x3800: 2.0**-1, 0x3C00: 2.0**0}

BINARY16_4000 = {0x4000: 2.0**1, 0x4400: 2.0**2, 0x4800: 2.0**3, 0x4C00: 2.0**4, 0x5000: 2.0**5}

DAYS_OF_A_WEEK = 7

BINARY16_5400 = {0x5400: 2.0**6, 0x5800: 2.0**7, 0x5C00: 2.0**8, 0x6000: 2.0**9, 0x6400: 2.0**10}

HOURS_OF_A_DAY = 24

BINARY16_6800 = {0x6800: 2.0**11, 0x6C00: 2.0**12, 0x7000: 2.0**13, 0x7400: 2.0**14, 0x7800: 2.0**15}

V1_MHZ = 700

ASCII_20 = " !\"#$%&'()*+,-./"

V3_MHZ = 940

ASCII_30 = "0123456789:;<=>?"

V4_MHZ = 1050

ASCII_40 = "@ABCDEFGHIJKLMNO"

V1_WATTS = 40

ASCII_50 = "PQRSTUVWXYZ[\\]^_"

BITS_OF_A_BYTE = 8

ASCII_60 = "`abcdefghijklmno"

ASCII_70 = "pqrstuvwxyz{|}~"
