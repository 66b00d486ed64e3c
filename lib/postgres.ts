export {
  PostgresQuotaStore,
  type PostgresQuotaStoreOptions
} from './store/postgres/postgres-store.js'
export type { PostgresConnection, PostgresPool } from './store/postgres/connections.js'
export { postgresSchema, type PostgresSchemaOptions } from './store/postgres/schema.js'
