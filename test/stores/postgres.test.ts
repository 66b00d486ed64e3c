// PostgreSQL takes seconds to start in a process, so these tests share it.
import './postgres-driver.js'
import './postgres-store.js'
