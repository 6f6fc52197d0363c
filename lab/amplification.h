/* How much collection writes when victims are those with the least in them. */
#ifndef LAB_AMPLIFICATION_H
#define LAB_AMPLIFICATION_H

/**
 * Bytes written for each byte that is overwritten, uniformly at random, in a log of many large segments whose
 * emptiest segment is cleaned next.
 *
 * @param live_share  of all segments' bytes: from 0 to just below 1
 *
 * Source: Xiang and Kurkoski, An Improved Analytic Expression for Write Amplification in NAND Flash, ICNC
 * 2012: what is left in a segment when its turn comes, c, solves live_share = (c - 1) / ln(c). With 0.3 of
 * over-provisioning it comes to 2.36, and the simulation there to 2.35.
 */
double lab_greedy_bound(double live_share);

#endif
