__all__ = ["VERSION"]

VERSION: str
