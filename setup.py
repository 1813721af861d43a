"""Which packages there are: those of biaslab, and the notebooks at the top level as its folder `notebooks`."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["biaslab*"]), "biaslab.notebooks"],
    package_dir={"biaslab.notebooks": "notebooks"},
)
