"""The RealStream policies TAAT, BTS and ATS, part by part."""
