package natsbus

// Crash ends the connection as the death of the process would: nothing is given back.
func (b *Bus) Crash() { b.conn.Close() }
