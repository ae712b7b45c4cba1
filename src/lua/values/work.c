#include "lua/values/work.h"

#include "lua/isolate/charge.h"

/* --- Encoding --------------------------------------------------------------------------------- */

static int encoding_step(struct paced *paced, lua_State *L, int steps, const volatile bool *hurry)
{
    struct encoding *work = container_of(paced, struct encoding, paced);
    return encoder_step(&work->encoder, L, steps, hurry);
}

static void encoding_move(struct paced *to, struct paced *from)
{
    struct encoding *new = container_of(to, struct encoding, paced);
    struct encoding *old = container_of(from, struct encoding, paced);
    new->own = old->own;
    encoder_move(&new->encoder, &old->encoder, old->encoder.m == &old->own ? &new->own : NULL);
}

static void encoding_free(struct paced *paced)
{
    struct encoding *work = container_of(paced, struct encoding, paced);
    encoder_free(&work->encoder);
    message_free(&work->own);
}

void encoding_begin(struct encoding *work, lua_State *L, int slot, struct message *m, int first, int count,
                    const char *root)
{
    static const struct paced_kind kind = {
        .size = sizeof *work, .step = encoding_step, .move = encoding_move, .free = encoding_free
    };
    work->paced = (struct paced){ .kind = &kind, .slot = slot };
    struct alloc alloc = charge_alloc(isolate_of(L));
    message_init(&work->own, &alloc);
    work->own.flat = true;
    encoder_begin(&work->encoder, m ? m : &work->own, L, first, count, root);
}

bool encoding_writes(const struct paced *work, const struct message *m)
{
    return container_of(work, const struct encoding, paced)->encoder.m == m;
}

/* --- Decoding --------------------------------------------------------------------------------- */

static int decoding_step(struct paced *paced, lua_State *L, int steps, const volatile bool *hurry)
{
    struct decoding *work = container_of(paced, struct decoding, paced);
    return decoder_step(&work->decoder, L, steps, hurry);
}

static void decoding_move(struct paced *to, struct paced *from)
{
    struct decoding *new = container_of(to, struct decoding, paced);
    new->decoder = container_of(from, struct decoding, paced)->decoder;
}

static void decoding_free(struct paced *paced)
{
    (void)paced;
}

void decoding_begin(struct decoding *work, int slot, const struct message *m, const void *bytes, size_t size)
{
    static const struct paced_kind kind = {
        .size = sizeof *work, .step = decoding_step, .move = decoding_move, .free = decoding_free
    };
    work->paced = (struct paced){ .kind = &kind, .slot = slot };
    decoder_begin(&work->decoder, m, bytes, size);
}

bool decoding_reads(const struct paced *work, const struct message *m)
{
    return container_of(work, const struct decoding, paced)->decoder.m == m;
}
