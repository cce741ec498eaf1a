"""Pipelines around matrix units: copies into stages, roles of warps, and what runs beside a product."""
