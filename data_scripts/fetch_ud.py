"""Fetch treebanks into the user's cache, and verify them.

    python data_scripts/fetch_ud.py                        those that have a public home, from there
    python data_scripts/fetch_ud.py --from DIR             all that are in a folder that you have
    python data_scripts/fetch_ud.py --only UD_English-EWT  this one; --only can be repeated

UD_English-EWT: a commit of May 2025 of github.com/UniversalDependencies/UD_English-EWT (CC BY-SA
4.0). IcePaHC: the texts of a commit of November 2025 of
github.com/UniversalDependencies/UD_Icelandic-IcePaHC, joined in the order of its splits; not its
released files (CC BY-SA 4.0). grc_agdt_gorman: Ancient Greek, converted from AGDT (CC BY-SA 3.0 US)
and the Gorman trees (CC BY-SA 4.0). In this form it has no public home: it comes with --from only.

DIR holds the files of a treebank, in a folder with its name or not, compressed (.gz) or not. What
is verified is the SHA-256 of what is in the files, so that it does not matter how they were
compressed. Files that are there already, and right, are left alone.
"""

import sys
from typing import NamedTuple

from _fetch import (
    existing_path,
    from_folder,
    from_url,
    holds,
    run_chosen,
    save_compressed,
    shown,
    verified,
)

from omkl.data.files import user_cache
from omkl.exceptions import DataFileError

HOME = "https://raw.githubusercontent.com/UniversalDependencies"
EWT = "UD_English-EWT/15d613d8447b3478787d4c278730a1e48a945efb"
ICEPAHC = "UD_Icelandic-IcePaHC/ca72a59affd87c4b7b9067ae56efa7a694a7b4c4/not-to-release/CoNLLU"
#: The texts of each part of IcePaHC.
ICEPAHC_TEXTS = {
    "train": """
        1150.homiliubok.rel-ser 1210.thorlakur.rel-sag 1250.sturlunga.nar-sag
        1260.jomsvikingar.nar-sag 1270.gragas.law-law 1275.morkin.nar-his 1300.alexander.nar-sag
        1310.grettir.nar-sag 1325.arni.nar-sag 1350.finnbogi.nar-sag 1400.gunnar.nar-sag
        1400.viglundur.nar-sag 1450.ectorssaga.nar-sag 1450.judit.rel-bib 1450.vilhjalmur.nar-sag
        1480.jarlmann.nar-sag 1525.erasmus.nar-sag 1540.ntjohn.rel-bib 1593.eintal.rel-oth
        1611.okur.rel-oth 1650.illugi.nar-sag 1659.pislarsaga.bio-aut 1661.indiafari.bio-tra
        1675.armann.nar-fic 1675.magnus.bio-oth 1675.modars.nar-fic 1680.skalholt.nar-rel
        1725.biskupasogur.nar-rel 1790.fimmbraedra.nar-sag 1791.jonsteingrims.bio-aut
        1830.hellismenn.nar-sag 1835.jonasedli.sci-nat 1859.hugvekjur.rel-ser 1861.orrusta.nar-fic
        1882.torfhildur.nar-fic 1888.vordraumur.nar-fic 1907.leysing.nar-fic 1908.ofurefli.nar-fic
        1985.margsaga.nar-fic 1985.sagan.nar-fic 2008.mamma.nar-fic
    """,
    "dev": """
        1250.thetubrot.nar-sag 1350.bandamennM.nar-sag 1475.aevintyri.nar-rel
        1525.georgius.nar-rel 1630.gerhard.rel-oth 1720.vidalin.rel-ser 1888.grimur.nar-fic
        1883.voggur.nar-fic 1902.fossar.nar-fic 2008.ofsi.nar-sag
    """,
    "test": """
        1150.firstgrammar.sci-lin 1210.jartein.rel-sag 1350.marta.rel-sag 1450.bandamenn.nar-sag
        1400.gunnar2.nar-sag 1540.ntacts.rel-bib 1628.olafuregils.bio-tra 1745.klim.nar-fic
        1850.piltur.nar-fic 1920.arin.rel-ser
    """,
}


class File(NamedTuple):
    """A file of a treebank, its size in bytes, its SHA-256, and the addresses of its texts.

    Without a public home, it has no addresses.
    """

    name: str
    size: int
    sha256: str
    urls: list


def _ewt(part, size, sha256):
    name = f"en_ewt-ud-{part}.conllu"
    return File(name, size, sha256, [f"{HOME}/{EWT}/{name}"])


def _icepahc(part, size, sha256):
    urls = [f"{HOME}/{ICEPAHC}/{text}.conllu" for text in ICEPAHC_TEXTS[part].split()]
    return File(f"is_icepahc-src-{part}.conllu", size, sha256, urls)


def _greek(part, size, sha256):
    return File(f"grc-agdt-gorman-{part}.conllu", size, sha256, [])


TREEBANKS = {
    "UD_English-EWT": [
        _ewt(
            "train", 14_203_025, "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b"
        ),
        _ewt("dev", 1_805_545, "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6"),
        _ewt("test", 1_804_515, "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd"),
    ],
    "IcePaHC": [
        _icepahc(
            "train", 61_455_657, "5e32c488e9574e4964b9e6277da9048fb2bd9f01afae3c845a52d9b48485868c"
        ),
        _icepahc(
            "dev", 11_865_146, "6840ee6c80f66b6c06709a006a924d2f272c8058618113f1c507e69baa688533"
        ),
        _icepahc(
            "test", 11_945_266, "737d6c53d3d07a0930a6823877be2c73d61bb0ae64b6ee5a7572a8a6e22ad665"
        ),
    ],
    "grc_agdt_gorman": [
        _greek(
            "train", 45_924_210, "a8cb4188bc9ccd5aa12002d88e234f9c9c10eb46f93d61d462f6befbc4215f3a"
        ),
        _greek(
            "dev", 2_486_245, "e12ad8647544b84771c3b0aebbb48e66887d772c12a7dd0fb8cf8b58b3221374"
        ),
        _greek(
            "test", 2_467_670, "5b7316e5faabfb1eeeb3c1667c7b1f41b0a50ece997c644cb3eb0aef4627550b"
        ),
    ],
}


def fetch(names, folder):
    """Put treebanks into the cache; without names all of ``folder``, or of the public homes."""
    names = names or [name for name in TREEBANKS if _offers(name, folder)]
    if not names:
        raise DataFileError(f"There is no file of {', '.join(TREEBANKS)} in {folder}.")
    for name in names:
        for file in TREEBANKS[name]:
            target = user_cache() / "ud" / name / f"{file.name}.gz"
            if holds(target, file.sha256):
                print(f"{target} is there already.")
                continue
            blocks, source = _source(name, file, folder)
            blocks = shown(blocks, file.name, file.size)
            save_compressed(verified(blocks, file.sha256, source), target)


def _offers(name, folder):
    files = TREEBANKS[name]
    if folder:
        return any(existing_path(file.name, folder, name, f"ud/{name}") for file in files)
    return all(file.urls for file in files)


def _source(name, file, folder):
    """Return the bytes of a file in blocks, and the name of their origin."""
    if folder is not None:
        return from_folder(file.name, folder, name, f"ud/{name}")
    if not file.urls:
        raise DataFileError(
            f"{name} has no public home in this form: if you have it, give its folder with --from."
        )
    if len(file.urls) == 1:
        return from_url(file.urls[0]), file.urls[0]
    return _joined(file.urls), f"{file.name}, joined of {len(file.urls)} texts,"


def _joined(urls):
    """Yield treebanks one after the other, with an empty line after each."""
    for url in urls:
        yield b"".join(from_url(url)).rstrip(b"\n") + b"\n\n"


def main(argv=None):
    return run_chosen("fetch_ud", __doc__, fetch, TREEBANKS, "files", argv)


if __name__ == "__main__":
    sys.exit(main())
