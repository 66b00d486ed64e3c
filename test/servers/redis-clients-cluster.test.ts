// Every client of a cluster.
import { testClients } from '../support/redis-client-tests.js'
import { clusterClients } from '../support/redis-clients.js'
import { startCluster } from '../support/redis-server.js'

await testClients(clusterClients, await startCluster(), 8)
