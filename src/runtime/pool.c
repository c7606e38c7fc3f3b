/* pool.c — run states: claimed with one atomic exchange, waited for when all are taken. */
#include "runtime/session.h"

static run_state *try_claim(rlx_session *s) {
  for (int i = 0; i < s->state_count; i++) {
    run_state *rs = &s->states[i];
    if (__atomic_load_n(&rs->busy, __ATOMIC_RELAXED)) continue;
    if (!__atomic_exchange_n(&rs->busy, 1, __ATOMIC_ACQUIRE)) return rs;
  }
  return NULL;
}

rlx_status run_state_claim(rlx_session *s, run_state **out) {
  run_state *rs = try_claim(s);
  if (!rs && s->options.busy_fails)
    return RLX_FAIL(BUSY, "all %d run states of the session are in use", s->state_count);
  if (!rs) {
    pthread_mutex_lock(&s->pool_lock);
    __atomic_fetch_add(&s->waiting, 1, __ATOMIC_SEQ_CST);
    while (!(rs = try_claim(s))) pthread_cond_wait(&s->pool_free, &s->pool_lock);
    __atomic_fetch_sub(&s->waiting, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&s->pool_lock);
  }
  *out = rs;
  return RLX_OK;
}

void run_state_return(run_state *rs) {
  rlx_session *s = rs->session;
  for (size_t i = 0; i < rs->dynamic.count; i++) {
    (void)session_charge(s, -(int64_t)rs->dynamic.data[i]->bytes);
    rlx_tensor_destroy(rs->dynamic.data[i]);
  }
  rs->dynamic.count = 0;
  if (rs->texts.used) {
    (void)session_charge(s, -(int64_t)rs->texts.used);
    arena_finish(&rs->texts);
  }
  rs->cancel = NULL;
  rs->options = NULL;
  __atomic_store_n(&rs->busy, 0, __ATOMIC_SEQ_CST);
  if (!__atomic_load_n(&s->waiting, __ATOMIC_SEQ_CST)) return;
  pthread_mutex_lock(&s->pool_lock); /* a waiter is either before its claim or in its wait */
  pthread_cond_signal(&s->pool_free);
  pthread_mutex_unlock(&s->pool_lock);
}
