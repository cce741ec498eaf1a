"""What definitions declare: annotations, signatures, structs, decorators, schedules."""
