#include "base/text/config_synonyms.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

/* Words in lower case, without '_' and '-'. A meaning that is right only where its key stands has no path
 * before it. Where a word has several, one whose key stands in the section at hand goes before the first. */
static const struct {
    const char *meaning, *words;
} table[] = {
    {"data", "dataset datasets dataconfig dataloader reader source inputdata"},
    {"data.train", "training traindata trainingdata trainpath trainfile trainset trainfiles"},
    {"data.valid",
     "validation val dev validdata valdata validationdata validpath valpath validset valset evalset evaldata "
     "evalsource devdata"},
    {"data.valid.fraction",
     "validationsplit valsplit validsplit validationfraction valratio validratio validationratio valsize "
     "validsize validationsize"},
    {"data.test.fraction", "testsize testsplit testratio"},
    {"data.test", "testdata testpath testfile testset testing"},
    {"data.labels",
     "label labelcol labelcolumn labelcolumns labelname labelnames target targets targetcol targetcolumn y "
     "tasks task"},
    {"data.labels[].positive", "poslabel positivelabel positiveclass positivevalue"},
    {"data.labels[].loss", "lossfn lossfunction criterion objective lossname"},
    {"data.labels[].weight", "lossweight lossweights taskweight"},
    {"data.labels[].smoothing", "labelsmoothing smoothinglabel"},
    {"data.features",
     "featurecols featurecolumns featurelist sparsefeatures sparsecolumns categorical categoricalcolumns "
     "categoricalfeatures catfeatures inputfeatures inputs"},
    {"data.features[].dense",
     "densefeatures densecolumns numeric numerical numericcolumn numericcolumns numericfeatures "
     "numericalfeatures continuous floatfeatures"},
    {"data.features[].identity", "vocabsize vocabularysize cardinality numcategories numclasses"},
    {"data.features[].hash", "hashbucketsize hashbuckets numbuckets hashsize hashing numhashbuckets"},
    {"data.features[].hash_functions",
     "numhashfunctions numhashes hashstackrounds hashstack multihash nhashes unifiedembedding"},
    {"data.features[].quotient_remainder", "qr qrflag qrcollisions qrembedding compositional"},
    {"data.features[].compose", "qroperation composition"},
    {"data.features[].vocabulary", "vocab vocabularylist vocabularyfile stringlookup lookup"},
    {"data.features[].vocabulary.min_count", "minfreq minfrequency mincategrcount minoccurrences"},
    {"data.features[].vocabulary.max_size", "maxtokens maxfeatures maxvocabsize"},
    {"data.features[].vocabulary.oov", "numoovindices numoovbuckets oovbuckets oovtoken"},
    {"data.features[].bucketize", "bins boundaries binboundaries bucketboundaries buckets discretization"},
    {"data.features[].quantiles", "numbins nbins numquantiles nquantiles"},
    {"data.features[].cross", "crosses crossed crossedcolumn crossfeatures"},
    {"data.features[].default_value", "default fillna nafill missingvalue imputer imputevalue"},
    {"data.features[].normalize",
     "normalizer normalization scaler standardize standardscaler zscore normalise"},
    {"data.features[].log1p", "log logtransform"},
    {"data.features[].max_length", "maxlen maxids"},
    {"data.separator", "sep delimiter delim fielddelim splitter"},
    {"data.header", "hasheader headerrow"},
    {"data.columns", "names columnnames colnames cols fieldnames"},
    {"data.missing", "navalues navalue missingvalues nullvalues nullvalue"},
    {"data.sample_weight",
     "weightcol weightcolumn sampleweights sampleweightcol weights instanceweight exampleweight"},
    {"data.group", "groupid groups groupcol groupby queryid qid useridcolumn"},
    {"data.shuffle", "shuffledata shuffletrain reshuffleeachiteration"},
    {"data.shuffle_window", "shufflebuffer buffersize shufflebuffersize"},
    {"data.reader_threads",
     "numworkers workers numparallelcalls prefetch prefetchfactor readerworkers numdataloaderworkers"},
    {"data.on_bad_row", "onbadlines errorbadlines ignoreerrors"},
    {"train", "trainer fit trainconfig trainparams hyperparameters"},
    {"train.optimizer", "opt optim denseoptimizer"},
    {"train.optimizer.learning_rate",
     "lr eta learningrate initiallr initiallearningrate baselr learningrateinit stepsize"},
    {"train.optimizer.momentum", "momentumfactor"},
    {"train.optimizer.weight_decay", "wd weightdecay"},
    {"train.optimizer.epsilon", "eps"},
    {"train.optimizer.beta1", "b1 betas"},
    {"train.optimizer.beta2", "b2"},
    {"train.optimizer.initial_accumulator", "initialaccumulatorvalue initaccumulator initialaccumulatorval"},
    {"train.optimizer.clip_gradient", "clipvalue gradientclipvalue"},
    {"train.optimizer.schedule", "scheduler lrscheduler lrschedule learningrateschedule lrpolicy lrdecay"},
    {"train.optimizer.schedule.warmup_steps", "warmup numwarmupsteps warmupsteps lrwarmup"},
    {"train.optimizer.schedule.decay_steps", "decaysteps tmax"},
    {"train.plateau", "reducelronplateau lronplateau reducelr"},
    {"train.plateau.factor", "lrfactor decayfactor"},
    {"train.max_gradient_norm",
     "clipnorm globalclipnorm maxgradnorm gradientclipval gradclip gradientclipnorm gradientclip "
     "clipgradnorm gradientclipping"},
    {"train.l2",
     "l2reg l2regularization l2regularizer kernelregularizer netregularizer l2regdnn reglambda "
     "regularization regularizer lambda"},
    {"train.batch_size",
     "bs batch batchsize minibatch minibatchsize trainbatchsize perdevicebatchsize perdevicetrainbatchsize "
     "microbatchsize"},
    {"train.evaluate.batch_size", "evalbatchsize batchsizeeval valbatchsize validbatchsize testbatchsize"},
    {"train.epochs", "nepochs numepochs maxepochs epoch nbepoch nepoch numtrainepochs"},
    {"train.steps", "maxiter maxsteps iterations niter numsteps numiterations totalsteps trainsteps"},
    {"train.seed", "randomstate randomseed rngseed manualseed"},
    {"train.threads", "njobs numthreads nthread nthreads cpus"},
    {"train.dtype", "precision mixedprecision usemixedprecision amp fp16 computedtype datatype"},
    {"train.early_stopping", "earlystop es earlystopper"},
    {"train.early_stopping.patience",
     "patience espatience earlystoppingpatience earlystoppatience earlystoppingrounds"},
    {"train.early_stopping.metric", "monitor monitormetric metricforbestmodel"},
    {"train.early_stopping.min_delta", "mindelta tol"},
    {"train.metrics", "evalmetric evalmetrics metricnames"},
    {"train.log_every", "loginterval logsteps loggingsteps display logeverynsteps logfrequency"},
    {"train.output",
     "outputdir outdir out savedir savepath modeldir modelroot checkpointdir checkpointpath logdir "
     "defaultrootdir"},
    {"train.evaluate", "evaluation eval"},
    {"train.evaluate.every_steps", "evalinterval evalsteps evalevery validationfreq valcheckinterval"},
    {"train.checkpoint", "checkpoints checkpointing savecheckpoint modelcheckpoint"},
    {"train.checkpoint.every_steps", "saveevery savesteps snapshot checkpointinterval savecheckpointssteps"},
    {"train.checkpoint.keep", "savetotallimit maxtokeep keepcheckpointmax savetopk"},
    {"train.keep_best", "savebestonly restorebestweights loadbestmodelatend savebest"},
    {"train.tensorboard", "usetensorboard tensorboarddir"},
    {"embedding", "embeddings embeddinglayer embeddingcollection embeddingbagcollection"},
    {"embedding.dim",
     "embeddingdim embeddingdims embeddingsize embdim embsize embeddim embedsize embeddingvecsize evsize "
     "latentdim nfactors numfactors factors dmodel "
     "embeddingdimension dimension vectorsize outputdim"},
    {"embedding.tables", "embeddingtables tableconfigs tablesconfig embeddingbagconfigs"},
    {"embedding.tables[].rows",
     "numembeddings inputdim nrows numrows vocabsize vocabularysize maxvocabularysizepergpu numitems "
     "hashbucketsize cardinality"},
    {"data.features[].identity", "numembeddings"}, /* behind the rows of a table */
    {"embedding.tables[].trainable", "requiresgrad"},
    {"embedding.tables[].eviction.ttl", "expiretime evictionttlmins expireseconds ttlseconds"},
    {"embedding.tables[].eviction.ttl_steps", "stepstolive"},
    {"data.timestamp", "timestampcol timestampcolumn timecol timecolumn eventtime timefield"},
    {"embedding.tables[].admission.min_count", "filterfreq occurrencethreshold"},
    {"embedding.features", "featurenames slots"},
    {"embedding.features[].table", "shareembedding sharedembedding embeddingname sharewith tablename"},
    {"embedding.features[].max_sequence_length",
     "sequencelength seqlen seqlength maxseqlen maxseqlength historylength"},
    {"embedding.combiner", "pooling poolingtype poolingmode aggregation aggregator combinertype"},
    {"embedding.initializer",
     "embeddingsinitializer embeddinginitializer initfn weightinit weightinitmin weightinitmax init "
     "initialization"},
    {"embedding.initializer.stddev", "initstd std sigma initializerrange"},
    {"embedding.initializer.min", "minval"},
    {"embedding.initializer.max", "maxval"},
    {"embedding.l2",
     "embeddingregularizer l2regembedding embeddingl2 embreg embl2 l2embed embeddingsregularizer"},
    {"embedding.optimizer", "sparseoptimizer embeddingoptimizer sparseopt fusedparams"},
    {"model", "network net arch architecture modelconfig"},
    {"kind",
     "type name classname modelname modeltype algorithm opttype optimizertype optimizername modelclass"},
    {"model.deep",
     "hiddenunits hiddenlayers hiddenlayersizes hidden hiddendim hiddendims hiddensize hiddensizes "
     "dnnhiddenunits mlphiddenunits layersizes mlp mlpunits mlplayers dnn "
     "denseunits denselayers dnnunits units overarchlayersizes top topmlp archmlptop toplayers deeplayers "
     "deepunits dnnlayers fclayers layers"},
    {"model.bottom", "bottommlp archmlpbot bottomlayers bottomunits densearchlayersizes bottommlpunits"},
    {"model.dropout",
     "dropoutrate netdropout dropoutp dropoutprob dnndropout dropoutratio dropouts dropoutdeep"},
    {"model.activation",
     "hiddenactivation hiddenactivations dnnactivation act activationfn activationfunction nonlinearity "
     "dnnactivations"},
    {"model.batch_norm", "usebatchnorm batchnormalization bn usebn dnnusebn netbatchnorm"},
    {"model.cross_layers", "numcrosslayers crossnum ncrosslayers numcross crosslayernum"},
    {"model.cross_kind", "crossparameterization parameterization"},
    {"model.cross_rank", "lowrank dcnlowrankdim projectiondim lowrankdim"},
    {"model.cross_experts", "numcrossexperts"},
    {"model.cin", "cinlayerunits cinhiddenunits cinlayersize cinlayersizes cinunits"},
    {"model.attention_layers", "attlayernum numattentionlayers attlayers"},
    {"model.attention_heads", "numheads nheads headnum nhead heads attheadnum"},
    {"model.attention_dim", "attentionsize attembeddingsize keydim headdim"},
    {"model.attention_deep", "atthiddensize attentionhiddenunits dinattention"},
    {"model.experts", "numexperts nexperts expertnum"},
    {"model.expert_units", "experthiddenunits expertdnnhiddenunits"},
    {"model.task_experts", "specificexpertnum numspecificexperts"},
    {"model.shared_experts", "sharedexpertnum numsharedexperts"},
    {"model.levels", "numlevels"},
    {"model.towers", "towerunits towerhiddenunits towerdnnhiddenunits tower"},
    {"model.mask_blocks", "parallelnumblocks numblocks blocks"},
    {"model.linear_l2", "l2reglinear linearregularizer wideregularizer"},
    {"model.retrieval.negatives",
     "numnegatives nnegatives numneg negativesamples numnegsamples negsampling numsampled"},
    {"cluster.tables[].owner_pooling", "pools pooling ownerpools"},
    {"cluster.tables[].sharding", "shardingtype shardingtypes"},
    {"cluster.plan", "shardingplan"},
    {"cluster", "distributed distribution parallel strategy"},
    {"device", "gpu gpus usegpu accelerator vvgpu devices"},
    /* values */
    {"cuda", "gpu nvidia gpus"},
    {"lr", "logisticregression logreg linear logistic"},
    {"fm", "factorizationmachine factorizationmachines"},
    {"dnn", "mlp feedforward"},
    {"wide_deep", "widedeep wideanddeep wdl widendeep widedeeplearning"},
    {"dcn_v2", "dcnv2 dcn2 crossnetv2 dcnm"},
    {"two_tower", "dssm twotower dualencoder youtubednn"},
    {"mmoe", "moe mixtureofexperts"},
    {"final_mlp", "finalmlp"},
    {"sigmoid_cross_entropy",
     "bce binarycrossentropy binarylogloss crossentropy bcewithlogits bcewithlogitsloss logloss"},
    {"mse", "meansquarederror l2loss regression squarederror mseloss"},
    {"logloss", "bce binarycrossentropy crossentropy binarylogloss"},
    {"auc", "rocauc aucroc roc"},
    {"normalized_entropy", "ne normalisedentropy"},
    {"rmse", "rootmeansquarederror"},
    {"mae", "meanabsoluteerror"},
    {"accuracy", "acc binaryaccuracy"},
    {"none", "linear identity"},
    {"mean", "avg average"},
    {"sum", "add"},
    {"f32", "float32 fp32 float single"},
    {"f16", "float16 fp16 half"},
    {"bf16", "bfloat16"},
    {"rowwise_adagrad", "exactrowwiseadagrad rowwiseadagrad"},
    {"momentum", "sgdmomentum nag"},
    {"normal", "randomnormal gaussian"},
    {"uniform", "randomuniform"},
    {"truncated_normal", "truncnormal truncatednormal"},
    {"polynomial", "linear linearlydecay polynomialdecay"},
    {"cosine", "cosinedecay cosineannealing cosineannealinglr"},
    {"step", "steplr multistep staircase"},
};
enum { N = sizeof table / sizeof table[0], MAX_WORD = 48 };

/* A word as the table has it; 0: it is too long for that. */
static size_t normalize_word(const char *word, char out[MAX_WORD]) {
    size_t n = 0;
    for (; *word; word++) {
        if (*word == '_' || *word == '-') continue;
        if (n == MAX_WORD) return 0;
        out[n++] = (char)tolower((unsigned char)*word);
    }
    return n;
}

static bool has_word_in_list(const char *words, const char *word, size_t n) {
    for (const char *at = words; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, word, n) == 0 && (at[n] == ' ' || !at[n])) return true;
    }
    return false;
}

/* Our own word, in another place than its own. */
static bool is_same_as_meaning(const char *meaning, const char *word, size_t n) {
    char name[MAX_WORD];
    return normalize_word(rk_synonym_last_part(meaning), name) == n && memcmp(name, word, n) == 0;
}

const char *rk_find_synonym(const char *word, size_t at) {
    char plain[MAX_WORD];
    size_t n = normalize_word(word, plain);
    for (size_t i = 0; i < N && n; i++)
        if ((has_word_in_list(table[i].words, plain, n) || is_same_as_meaning(table[i].meaning, plain, n)) &&
            at-- == 0)
            return table[i].meaning;
    return NULL;
}

const char *rk_synonym_last_part(const char *meaning) {
    const char *dot = strrchr(meaning, '.');
    return dot ? dot + 1 : meaning;
}

const char *rk_synonym_by_number(size_t number) {
    return number < N ? table[number].meaning : NULL;
}
