// Registers an OpenTelemetry meter provider that prints each measurement of a counter. Loaded into an example with `node --import`.
import { createNoopMeter, metrics } from '@opentelemetry/api'

metrics.setGlobalMeterProvider({
  getMeter: () => Object.assign(createNoopMeter(), {
    createCounter: (name) => ({ add (value, attributes) { console.log(JSON.stringify({ name, value, attributes })) } })
  })
})
