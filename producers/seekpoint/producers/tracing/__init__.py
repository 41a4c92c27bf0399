"""Live OpenTelemetry spans of runs, calls and messages. Nothing here imports opentelemetry while tracing is off."""
