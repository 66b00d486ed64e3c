// Every client of one server.
import t from 'tap'
import { testClients } from '../support/redis-client-tests.js'
import { singleClients } from '../support/redis-clients.js'
import { RedisServer, serverVersion } from '../support/redis-server.js'

t.comment(serverVersion())
await testClients(singleClients, [await RedisServer.start()], 1)
