export {
  PostgresQuotaStore,
  type PostgresQuotaStoreOptions
} from './store/postgres/postgres-store.js'
export type { PostgresPool } from './store/postgres/functions.js'
export { postgresSchema, type PostgresSchemaOptions } from './store/postgres/schema.js'
