"""The RealStream policies TAAT, BTS and ATS, one file per part."""
