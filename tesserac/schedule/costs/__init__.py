"""What things cost on a machine: work and bytes of bodies, blocks of products, whole host programs."""
